"""How often planner and policy bring the object to its goal, and how long they think about each step."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saccade.checks import check_choice
from saccade.worlds import apex, delivery, near_fetch
from saccade.worlds import policy as policies
from saccade.worlds.fetch import Fetch

WAYS: dict[str, apex.Settings | None] = {
    "policy": None,
    "guided": apex.GUIDED,
    "apex": apex.Settings(),
    "planner": apex.Settings(),
}
TOGETHER = 25  # episodes planned at once
SEED = 1


def benchmark(
    episodes: int = 200,
    ways: tuple[str, ...] = tuple(WAYS),
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Success (object within 5 cm of the goal after 50 steps) and milliseconds for each control step of an episode.

    Four ways from the same starts: the policy alone, the planner guided by it with the settings that data are made
    with and with the paper's, and the paper's planner without a policy. Starts and goals are none that the policy was
    trained or chosen by.
    """
    policy = policies.load()
    with Fetch() as world, near_fetch.model() as model:
        numbers: dict[str, Any] = {"episodes": episodes, "processor_us_of_a_step_in_the": _worlds(world, model)}
        for way in ways:
            check_choice("way", way, WAYS)
            settings = WAYS[way]
            planner = None if settings is None else apex.Planner(model, -np.ones(4), np.ones(4), settings)
            delivered, seconds, processor = 0, 0.0, 0.0
            for first in range(0, episodes, TOGETHER):
                numbered = range(first, min(first + TOGETHER, episodes))
                state = delivery.starts(world, "benchmark", SEED, numbered)
                clock, used = time.perf_counter(), time.process_time()
                played = delivery.play(
                    world,
                    state,
                    [(SEED, number) for number in numbered],
                    planner=planner,
                    policy=None if way == "planner" else policy,
                )
                seconds += time.perf_counter() - clock
                processor += time.process_time() - used
                delivered += int(played.delivered.sum())
                if progress:
                    progress(way, numbered.stop, episodes)
            steps = episodes * delivery.STEPS
            numbers[way] = {
                "delivered": delivered / episodes,
                "ms_per_step": 1000 * seconds / steps,
                "processor_ms_per_step": 1000 * processor / steps,
            }
    return numbers


def _worlds(world: Fetch, model: apex.MujocoModel, robots: int = 32, steps: int = 30) -> dict[str, float]:
    """Microseconds of one core for a control step, in the true world and in the cheaper one, from the same actions."""
    state = delivery.starts(world, "speed", SEED, range(robots))
    actions = np.random.default_rng(SEED).uniform(-1, 1, (robots, 1, steps, 4))
    near = near_fetch.Reader()(state)
    used = [time.process_time()]
    for step in range(steps):
        state = world.step(state, actions[:, 0, step])
    used.append(time.process_time())
    model.roll(near, actions)
    used.append(time.process_time())
    return dict(zip(("true_world", "cheaper_world"), np.diff(used) * 1e6 / (robots * steps), strict=True))
