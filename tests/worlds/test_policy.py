"""The policy sees mirrored worlds as mirrored, learns what it is shown, and comes with the package able to deliver."""

import jax
import numpy as np
import pytest

from saccade import saving
from saccade.checks import FileError
from saccade.worlds import apex, delivery, near_fetch, policy
from saccade.worlds.fetch import Fetch

pytestmark = pytest.mark.xdist_group("fetch")


@pytest.fixture(scope="module")
def world():
    with Fetch(workers=2) as world:
        yield world


def _states(count, seed=0):
    rng = np.random.default_rng(seed)
    state, goal = rng.normal(0, 0.2, (count, 24)), rng.normal(0, 0.2, (count, 3))
    state[:, 9:13] /= np.linalg.norm(state[:, 9:13], axis=1, keepdims=True)
    return state, goal


@pytest.mark.parametrize("axis", [0, 1])
def test_a_mirrored_world_looks_mirrored(axis):
    state, goal = _states(5)
    mirrored, mirrored_goal = state.copy(), goal.copy()
    mirrored_goal[:, axis] *= -1
    mirrored[:, np.array([1, 6, 13, 18]) + axis] *= -1  # places and velocities of hand and object
    mirrored[:, [10 + other for other in range(3) if other != axis]] *= -1  # the object's rotation
    if axis == 1:  # the fingers open along y
        mirrored[:, [4, 5, 16, 17]] = state[:, [5, 4, 17, 16]]
    seen, seen_mirrored = policy.look(state, goal), policy.look(mirrored, mirrored_goal)
    np.testing.assert_allclose(seen_mirrored, seen * policy._MIRRORED[:, axis], atol=1e-5)
    assert (np.asarray(seen) != np.asarray(seen_mirrored)).any()


def test_where_on_the_table_things_happen_makes_no_difference():
    state, goal = _states(5)
    moved, moved_goal = state.copy(), goal + np.array([0.1, -0.2, 0])
    moved[:, [1, 6]] += 0.1
    moved[:, [2, 7]] -= 0.2
    np.testing.assert_allclose(policy.look(moved, moved_goal), policy.look(state, goal), atol=1e-5)


def test_it_learns_what_it_is_shown():
    state, goal = _states(2000)
    seen = np.asarray(policy.look(state, goal))
    shown = np.clip(5 * np.concatenate([goal - state[:, 6:9], state[:, 3:4]], axis=1), -0.9, 0.9)
    untrained = policy.Policy(key=jax.random.key(0))
    trained, _ = policy.fit(untrained, seen, shown, key=jax.random.key(1), updates=200, batch=128)
    errors = [np.mean((np.asarray(policy.act(one, state, goal)) - shown) ** 2) for one in (untrained, trained)]
    assert errors[1] < 0.2 * errors[0]


def test_it_comes_back_from_its_file_unchanged(tmp_path):
    made = policy.Policy(key=jax.random.key(3))
    policy.save(made, tmp_path / "one.safetensors", rounds=3)
    state, goal = _states(3)
    back = policy.load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(policy.act(back, state, goal), policy.act(made, state, goal))


def test_a_file_of_something_else_is_refused(tmp_path):
    saving.write(tmp_path / "model.safetensors", {}, {"kind": "EventModel"})
    with pytest.raises(FileError, match="wanted a policy"):
        policy.load(tmp_path / "model.safetensors")


def test_what_it_imagines_is_what_it_would_do_in_the_cheaper_world():
    made = policy.Policy(key=jax.random.key(0))
    state, goal = _states(2)
    state[:, 9:13] = [1, 0, 0, 0]
    state[:, [3, 8]] = [0.2, 0.025]
    with near_fetch.model(workers=1) as model:
        guidance = policy.Guidance(made, model, state, goal)
        imagined = guidance.imagine(3)
        reached = model.roll(state, imagined[:, None])
    np.testing.assert_array_equal(imagined[:, 0], policy.act(made, state, goal))
    np.testing.assert_allclose(imagined[:, 2], policy.act(made, reached[:, 0, 1], goal), atol=1e-6)
    assert guidance.distance(reached, imagined[:, None]).max() < 1e-6
    assert guidance.distance(reached, 0 * imagined[:, None]).max() > 1e-6


def test_the_shipped_policy_delivers_most_objects_alone(world):
    played = delivery.play(world, delivery.starts(world, "test", 1, range(20)), [], policy=policy.load(), planner=None)
    assert played.delivered.mean() >= 0.5
    assert (np.abs(played.action) <= 1).all()


def test_with_the_planner_it_delivers_nearly_all(world):
    with near_fetch.model(workers=2) as model:
        planner = apex.Planner(model, -np.ones(4), np.ones(4), apex.GUIDED)
        state, seeds = delivery.starts(world, "test", 2, range(5)), [(0, number) for number in range(5)]
        played = delivery.play(world, state, seeds, planner=planner, policy=policy.load(), steps=40)
    assert played.delivered.sum() >= 4


def test_starts_follow_from_name_seed_and_number_and_are_never_delivered(world):
    many = delivery.starts(world, "here", 0, range(300))
    np.testing.assert_array_equal(many[7:9].observation, delivery.starts(world, "here", 0, range(7, 9)).observation)
    assert (many.observation[0] != delivery.starts(world, "there", 0, range(1)).observation[0]).any()
    assert np.linalg.norm(many.observation[:, 3:6] - many.observation[:, 8:11], axis=1).min() > 0.045
