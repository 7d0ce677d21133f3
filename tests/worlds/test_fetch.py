"""The Fetch world takes the same steps as Gymnasium-Robotics' own, at any table height, however it is shared out."""

import os

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from saccade.checks import InputError
from saccade.worlds.fetch import ENVIRONMENT, FINGERS, GOAL, HAND, OBJECT, Fetch, State, place

pytestmark = pytest.mark.xdist_group("fetch")
EPISODES = 100


@pytest.fixture(scope="module")
def world():
    with Fetch(workers=2) as world:
        yield world


@pytest.fixture(scope="module")
def episodes():
    """Gymnasium-Robotics' own episodes: actions that visit, push and grip the object, and what was seen."""
    robotics = pytest.importorskip("gymnasium_robotics")
    gymnasium.register_envs(robotics)
    env = gymnasium.make("FetchPickAndPlace-v4").unwrapped
    made = []
    for episode in range(EPISODES):
        rng = np.random.default_rng(episode)
        seen = [_eleven(env.reset(seed=episode)[0])]
        actions = []
        for _ in range(rng.integers(25, 51)):
            towards = (seen[-1][OBJECT] - seen[-1][HAND]) * 10 * rng.integers(0, 2)
            action = np.r_[towards, 0] + rng.normal(0, 0.7, 4)
            actions.append(np.clip(action, -1, 1).astype([np.float32, np.float64][episode % 2]))
            seen.append(_eleven(env.step(actions[-1])[0]))
        made.append((np.array(actions), np.array(seen)))
    env.close()
    return made


def _eleven(observation):
    return np.r_[observation["observation"][[0, 1, 2, 3, 4, 5, 9, 10]], observation["desired_goal"]]


def _started(world, heights, seed=0):
    rng = np.random.default_rng(seed)
    heights = np.asarray(heights, float)
    positions, goals = zip(*(place(world.home(height), rng) for height in heights), strict=True)
    return world.start(heights, np.array(positions), np.array(goals))


def test_random_episodes_really_touch_the_object(episodes):
    """Else the comparison below would say little."""
    moved = [np.ptp(seen[:, OBJECT], axis=0).max() > 0.01 for _, seen in episodes]
    assert sum(moved) > 0.9 * EPISODES


def test_environment_sees_what_gymnasium_robotics_sees(episodes):
    env = gymnasium.make(ENVIRONMENT).unwrapped
    for episode, (actions, seen) in enumerate(episodes):
        ours = [env.reset(seed=episode)[0], *(env.step(action)[0] for action in actions)]
        np.testing.assert_allclose(ours, seen, rtol=0, atol=1e-6)
    env.close()


def test_batch_sees_what_gymnasium_robotics_sees(world, episodes):
    """Both precisions of actions in batches of their own, all lengths together, from the same starts."""
    for dtype in (np.float32, np.float64):
        mine = [(actions, seen) for actions, seen in episodes if actions.dtype == dtype]
        first = np.array([seen[0] for _, seen in mine])
        state = world.start(np.full(len(mine), 0.4), first[:, OBJECT][:, :2], first[:, GOAL])
        np.testing.assert_allclose(state.observation, first, rtol=0, atol=1e-6)
        for step in range(50):
            going = [episode for episode, (actions, _) in enumerate(mine) if step < len(actions)]
            actions = np.zeros((len(mine), 4), dtype)
            actions[going] = [mine[episode][0][step] for episode in going]
            state = world.step(state, actions)
            wanted = [mine[episode][1][step + 1] for episode in going]
            np.testing.assert_allclose(state.observation[going], wanted, rtol=0, atol=1e-6)


def test_rewards_and_success_are_gymnasium_robotics_own():
    robotics = pytest.importorskip("gymnasium_robotics")
    gymnasium.register_envs(robotics)
    for reward in ("sparse", "dense"):
        theirs, ours = (gymnasium.make(name, reward_type=reward) for name in ("FetchPickAndPlace-v4", ENVIRONMENT))
        outcomes = set()
        for seed in range(150):
            theirs.reset(seed=seed)
            ours.reset(seed=seed)
            expected, given = theirs.step(np.zeros(4)), ours.step(np.zeros(4))
            assert given[1] == pytest.approx(expected[1], abs=1e-6)
            assert given[2:4] == expected[2:4]
            assert given[4]["is_success"] == bool(expected[4]["is_success"])
            outcomes.add(given[4]["is_success"])
        assert outcomes == {True, False}


@pytest.mark.filterwarnings("ignore::UserWarning")  # the checker's advice on unbounded observations
def test_environment_passes_gymnasiums_checker():
    env = gymnasium.make(ENVIRONMENT, table_height=(0.3, 0.5))
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_environment_ends_after_fifty_steps_and_never_before():
    env = gymnasium.make(ENVIRONMENT)
    env.reset(seed=0)
    ends = [env.step(np.zeros(4, np.float32))[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]


def test_environment_draws_table_heights_from_its_range():
    env = gymnasium.make(ENVIRONMENT, table_height=(0.3, 0.5))
    heights = [env.reset(seed=seed)[1]["table_height"] for seed in range(20)]
    assert 0.3 <= min(heights) < 0.36
    assert 0.44 < max(heights) <= 0.5
    assert env.reset(seed=1, options={"table_height": 0.45})[1]["table_height"] == 0.45


def test_hand_object_and_goal_move_with_the_table(world):
    heights = np.array([0.2, 0.3, 0.4, 0.437, 0.5, 0.6])
    states = [_started(world, [height], seed=3) for height in heights]
    seen = np.array([state.observation[0] for state in states])
    for things in (HAND, OBJECT, GOAL):
        above = seen[:, things][:, 2] - heights
        np.testing.assert_allclose(above, above[2], atol=2e-3)
        np.testing.assert_allclose(seen[:, things][:, :2], seen[[2] * len(seen), things][:, :2], atol=2e-3)
    assert above[0] > 0.02


def test_object_rests_on_every_table_and_the_hand_stops_at_it(world):
    heights = np.array([0.25, 0.333, 0.4, 0.55])
    state = _started(world, heights)
    resting = state.observation[:, OBJECT]
    for _ in range(15):
        state = world.step(state, np.tile([0.0, 0.0, -1.0, -1.0], (len(heights), 1)))
    np.testing.assert_allclose(state.observation[:, OBJECT], resting, atol=1e-3)
    np.testing.assert_allclose(resting[:, 2] - heights, 0.025, atol=1e-3)
    tips = state.observation[:, HAND][:, 2] - 0.0185
    np.testing.assert_allclose(tips, heights, atol=0.01)


def test_a_step_moves_the_hand_the_way_of_the_action(world):
    state = _started(world, [0.4] * 3)
    after = world.step(state, np.array([[1.0, 0, 0, 1], [0, 1.0, 0, 1], [0, 0, 1.0, 1]]))
    moved = after.observation[:, HAND] - state.observation[:, HAND]
    assert np.all(np.diag(moved) > 0.02)
    assert np.abs(moved - np.diag(np.diag(moved))).max() < 0.005
    assert np.all(after.observation[:, FINGERS] > state.observation[:, FINGERS] + 0.01)


def test_actions_beyond_the_limits_count_as_the_limits(world):
    state = _started(world, [0.4, 0.4])[[0, 0]]
    after = world.step(state, np.array([[7.0, -3, 2, 9], [1, -1, 1, 1]]))
    np.testing.assert_array_equal(after.observation[0], after.observation[1])


def test_workers_and_company_change_nothing(world):
    rng = np.random.default_rng(5)
    heights = rng.uniform(0.3, 0.5, 7)
    actions = rng.uniform(-1, 1, (20, 7, 4))
    actions[:, :, 2] -= 0.5
    state = _started(world, heights)
    alone = state[[4]]
    with Fetch(workers=1) as single:
        other = _started(single, heights)
        for action in actions:
            state, other = world.step(state, action), single.step(other, action)
            alone = single.step(alone, action[[4]])
    np.testing.assert_array_equal(state.physics, other.physics)
    np.testing.assert_array_equal(state.observation, other.observation)
    np.testing.assert_array_equal(state.observation[[4]], alone.observation)


def test_a_kept_state_goes_on_exactly_as_before(world):
    rng = np.random.default_rng(6)
    actions = rng.uniform(-1, 1, (15, 2, 4))
    state = _started(world, [0.4, 0.45])
    for action in actions[:5]:
        state = world.step(state, action)
    kept, ends = state, []
    for _ in range(2):
        state = kept
        for action in actions[5:]:
            state = world.step(state, action)
        ends.append(state.observation)
    np.testing.assert_array_equal(*ends)
    assert isinstance(kept[[0, 0, 1]], State)
    assert len(kept[[0, 0, 1]]) == 3


def test_workers_are_the_cores_also_where_the_system_names_no_free_ones(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    with Fetch() as world:
        assert world.workers == 3


@pytest.mark.parametrize("height", [0.05, 0.9, float("nan")])
def test_table_heights_out_of_reach_are_refused(world, height):
    with pytest.raises(InputError, match=r"table height .* wanted 0.2 to 0.6"):
        world.start(np.array([height]), np.zeros((1, 2)), np.zeros((1, 3)))
    with pytest.raises(InputError, match="table height"):
        gymnasium.make(ENVIRONMENT, table_height=height)


def test_wrong_arguments_say_what_was_wanted(world):
    state = _started(world, [0.4, 0.4])
    with pytest.raises(InputError, match=r"shape \(2, 3\): wanted \(2, 4\)"):
        world.step(state, np.zeros((2, 3)))
    with pytest.raises(InputError, match="workers is 0"):
        Fetch(workers=0)
    with pytest.raises(InputError, match="lower one first"):
        gymnasium.make(ENVIRONMENT, table_height=(0.5, 0.3))
    with pytest.raises(InputError, match="reward_type"):
        gymnasium.make(ENVIRONMENT, reward_type="generous")
    env = gymnasium.make(ENVIRONMENT).unwrapped
    with pytest.raises(InputError, match="call reset first"):
        env.step(np.zeros(4))
