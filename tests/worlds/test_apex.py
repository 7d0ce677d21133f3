"""The planner is iCEM, its cheaper world agrees with the true one, and its plans move true objects to true goals."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from saccade.checks import InputError
from saccade.worlds import near_fetch
from saccade.worlds.apex import Planner, Settings, coloured
from saccade.worlds.fetch import GOAL, HAND, OBJECT, Fetch, place

pytestmark = pytest.mark.xdist_group("fetch")
LOW, HIGH = -np.ones(2), np.ones(2)


class Point:
    """A world in which an action is a step, and everything that was tried is remembered."""

    size = 2

    def __init__(self):
        self.tried = []

    def roll(self, state, actions):
        self.tried.append(actions)
        return state[:, None, None] + np.cumsum(actions, axis=2)


def _towards(target):
    return lambda states, actions: np.linalg.norm(states - target, axis=-1)


def _planned(settings, steps=1, seeds=(0,), target=(5.0, -5.0)):
    world = Point()
    planner = Planner(world, LOW, HIGH, settings)
    plans, state, taken = planner.begin(seeds), np.zeros((len(seeds), 2)), []
    for _ in range(steps):
        plans, action = planner.plan(plans, state, _towards(np.array(target)))
        state = state + action
        taken.append(action)
    return world.tried, np.array(taken), plans


def test_noise_has_variance_one_and_its_power_falls_with_the_colour():
    rng = np.random.default_rng(0)
    frequency = np.arange(1, 31)
    for colour in (0.0, 1.0, 3.0):
        noise = coloured(rng, colour, (4000, 64, 2))
        assert noise.mean() == pytest.approx(0, abs=0.05)
        assert noise.var() == pytest.approx(1, rel=0.05)
        power = (np.abs(np.fft.rfft(noise, axis=1)) ** 2).mean((0, 2))[frequency]
        slope = np.polyfit(np.log(frequency), np.log(power), 1)[0]
        assert slope == pytest.approx(-colour, abs=0.05)


def test_noise_of_odd_length_has_variance_one_too():
    assert coloured(np.random.default_rng(0), 2.0, (4000, 31, 2)).var() == pytest.approx(1, rel=0.05)


def test_each_iteration_tries_fewer_trajectories_but_two_for_each_elite():
    assert [Settings().tried(iteration) for iteration in range(4)] == [40, 32, 25, 20]
    tried, _, _ = _planned(Settings(), steps=2)
    # 3 kept elites in all but the very first iteration, the mean in the last one of each step
    assert [actions.shape[1] for actions in tried] == [40, 32 + 3, 25 + 3 + 1, 40 + 3, 32 + 3, 25 + 3 + 1]


def test_elites_are_tried_again_and_shifted_at_the_next_step():
    settings = replace(Settings(), iterations=2)
    (first, second, third, _), _, _ = _planned(settings, steps=2)

    def best(actions):
        costs = np.linalg.norm(np.cumsum(actions[0], axis=1) - [5, -5], axis=-1).sum(1)
        return actions[0][np.argsort(costs, kind="stable")[:3]]

    np.testing.assert_array_equal(second[0, 32:35], best(first))
    np.testing.assert_array_equal(third[0, 40:43, :-1], best(second)[:, 1:])


def test_the_last_iteration_tries_the_mean_and_the_best_first_action_is_taken():
    settings = replace(Settings(), iterations=2, smoothing=0.0)
    (first, second), (taken,), _ = _planned(settings)
    costs = [np.linalg.norm(np.cumsum(tried[0], axis=1) - [5, -5], axis=-1).sum(1) for tried in (first, second)]
    np.testing.assert_allclose(second[0, -1], first[0][np.argsort(costs[0])[:10]].mean(0))
    np.testing.assert_array_equal(taken[0], second[0][np.argmin(costs[1]), 0])


def test_actions_stay_within_their_bounds_and_lead_to_the_goal():
    tried, taken, _ = _planned(Settings(), steps=15)
    assert max(np.abs(actions).max() for actions in tried) <= 1
    assert np.linalg.norm(taken.sum(0)[0] - [5, -5]) < 1.5  # steps, of 7


def test_an_episode_is_planned_alike_whoever_is_planned_beside_it():
    _, alone, _ = _planned(Settings(), steps=3, seeds=(7,))
    _, together, _ = _planned(Settings(), steps=3, seeds=(1, 7, 2))
    np.testing.assert_array_equal(alone[:, 0], together[:, 1])
    assert (together[:, 0] != together[:, 1]).any()


def test_a_trajectory_whose_simulation_bursts_is_never_taken():
    planner = Planner(Point(), LOW, HIGH)

    def bursting(states, actions):
        return np.where(actions[..., :1, :1] > 0, np.nan, 1.0)[..., 0] + np.zeros(states.shape[:-1])

    _, action = planner.plan(planner.begin([0]), np.zeros((1, 2)), bursting)
    assert action[0, 0] <= 0


class Fixed:
    """A guide that always wants the same."""

    wanted = np.array([-0.25, 0.75])

    def imagine(self, horizon):
        return np.broadcast_to(self.wanted, (1, horizon, 2))

    def distance(self, states, actions):
        return ((actions - self.wanted) ** 2).sum(-1)


def test_a_guide_is_where_planning_starts_and_decides_among_equals():
    world = Point()
    planner = Planner(world, LOW, HIGH)
    planner.plan(planner.begin([0]), np.zeros((1, 2)), _towards(np.zeros(2)), Fixed())
    first = world.tried[0]
    np.testing.assert_array_equal(first[0, -1], np.broadcast_to(Fixed.wanted, (30, 2)))
    np.testing.assert_allclose(first[0, :-1].mean((0, 1)), Fixed.wanted, atol=0.3)


def test_the_policy_pulls_the_harder_the_more_it_is_told_to():
    away = []
    for pull in (0.0, 0.3, 30.0):
        planner = Planner(Point(), LOW, HIGH, replace(Settings(), pull=pull))
        actions = [
            planner.plan(planner.begin([seed]), np.zeros((1, 2)), _towards(np.array([2.0, 2.0])), Fixed())[1]
            for seed in range(20)
        ]
        away.append(np.linalg.norm(np.array(actions) - Fixed.wanted, axis=-1).mean())
    assert away[0] > away[1] > away[2]


def test_planner_names_what_it_cannot_work_with():
    with pytest.raises(InputError, match="finite bounds"):
        Planner(Point(), LOW, np.array([1.0, np.inf]))
    with pytest.raises(InputError, match="no more elites"):
        Planner(Point(), LOW, HIGH, replace(Settings(), elites=50))
    planner = Planner(Point(), LOW, HIGH)
    with pytest.raises(InputError, match=r"wanted \(2, 2\)"):
        planner.plan(planner.begin([0, 1]), np.zeros((1, 2)), _towards(np.zeros(2)))


def test_a_gymnasium_task_is_solved_as_the_documents_show_it():
    """A reacher's finger comes to its target."""
    document = (Path(__file__).parents[2] / "docs" / "apex.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    names = {}
    exec(example, names)
    task = names["task"]
    assert np.linalg.norm(task.get_body_com("fingertip") - task.get_body_com("target")) < 0.03
    task.close()


# --- The cheaper world ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    with Fetch(workers=2) as world:
        yield world


@pytest.fixture(scope="module")
def grasps(world):
    """True states and actions of reaching, grasping and carrying, half of them with much noise."""
    from saccade.worlds import scripted

    rng = np.random.default_rng(0)
    count = 16
    positions, goals = zip(*(place(world.home(0.4), rng) for _ in range(count)), strict=True)
    state = world.start(np.full(count, 0.4), np.array(positions), np.array(goals))
    states, actions, phase, noise = [state], [], np.zeros(count, np.int8), np.zeros((count, 4))
    for step in range(30):
        phase = scripted._next_phase(phase, states[max(step - 1, 0)].observation, state.observation)
        noise = 0.7 * noise + rng.normal(0, 0.25, (count, 4)) * (np.arange(count) % 2)[:, None]
        action = np.clip(scripted._wanted(scripted.KINDS[0], phase, state.observation) + noise, -1, 1)
        state = world.step(state, action)
        states.append(state)
        actions.append(action)
    return states, np.array(actions)


def test_cheaper_world_agrees_with_the_true_one(grasps):
    """Ten steps (up to 30 cm) ahead, from before, within and after a grasp."""
    states, actions = grasps
    read = near_fetch.Reader()
    hand, thing, moved = [], [], []
    with near_fetch.model(workers=2) as model:
        for begin in (0, 5, 10, 15, 20):
            told = actions[begin : begin + 10].transpose(1, 0, 2)
            reached = model.roll(read(states[begin]), told[:, None])[:, 0, -1]
            true = near_fetch.from_table(states[begin + 10].observation, states[begin + 10].table_height)
            near = near_fetch.observe(reached, true[:, GOAL])
            hand.append(np.linalg.norm(near[:, HAND] - true[:, HAND], axis=-1))
            thing.append(np.linalg.norm(near[:, OBJECT] - true[:, OBJECT], axis=-1))
            moved.append(np.linalg.norm(true[:, OBJECT] - states[begin].observation[:, OBJECT] + [0, 0, 0.4], axis=-1))
    assert np.mean(moved) > 0.05  # else it would say little
    assert np.median(hand) < 0.02
    assert np.median(thing) < 0.02
    assert np.mean(thing) < 0.5 * np.mean(moved)


def test_cheaper_world_starts_where_the_true_one_is(grasps):
    states, _ = grasps
    read = near_fetch.Reader()
    for state in states[::7]:
        true = near_fetch.from_table(state.observation, state.table_height)
        seen = near_fetch.observe(read(state), true[:, GOAL])
        np.testing.assert_allclose(seen, true, atol=0.003)  # observations are one physics step (2 ms) old


def test_plans_of_the_cheaper_world_deliver_true_objects(world):
    """With fewer trajectories than usual, to save time; nothing but the planner drives."""
    from saccade.worlds import delivery

    settings = replace(Settings(), horizon=20, trajectories=30)
    with near_fetch.model(workers=2) as model:
        planner = Planner(model, -np.ones(4), np.ones(4), settings)
        state = delivery.starts(world, "here", 0, range(3))
        played = delivery.play(world, state, [(0, number) for number in range(3)], planner=planner, steps=40)
    assert played.delivered.sum() >= 2
