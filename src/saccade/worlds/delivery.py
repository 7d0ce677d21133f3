"""Episodes in which a planner, a policy, or both, bring the object to the goal in the true world."""

import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade.worlds import near_fetch
from saccade.worlds.apex import Planner
from saccade.worlds.fetch import GOAL, NEAR, OBJECT, USUAL_HEIGHT, Fetch, State, place
from saccade.worlds.policy import Guidance, Policy, act

STEPS = 50


@dataclass(frozen=True)
class Played:
    """What happened in N episodes, and what the planner would have done at each step."""

    observation: Float[np.ndarray, "episodes steps_and_one 11"]
    action: Float[np.ndarray, "episodes steps 4"]
    state: Float[np.ndarray, "episodes steps 24"]  # as the cheaper world has it
    advice: Float[np.ndarray, "episodes steps 4"]  # what the planner's elites agreed on, or without one, the action

    @property
    def delivered(self) -> np.ndarray:
        """Whether the object is within 5 cm of the goal in the end."""
        last = self.observation[:, -1]
        return np.linalg.norm(last[:, OBJECT] - last[:, GOAL], axis=-1) < NEAR


def starts(world: Fetch, name: str, seed: int, numbers: range) -> State:
    """Robots at home with object and goal drawn as Gymnasium-Robotics does, but never so that nothing is to be done.

    What is drawn follows from name, seed and number alone.
    """
    home = world.home(USUAL_HEIGHT)
    places, goals = [], []
    for number in numbers:
        rng = np.random.default_rng((seed, zlib.crc32(name.encode()), number))
        where, goal = place(home, rng)
        while np.linalg.norm(np.append(where, home.object_height) - goal) < NEAR:
            where, goal = place(home, rng)
        places.append(where)
        goals.append(goal)
    return world.start(np.full(len(numbers), USUAL_HEIGHT), np.array(places), np.array(goals))


def play(
    world: Fetch,
    state: State,
    seeds: list[tuple[int, ...]],
    *,
    planner: Planner | None = None,
    policy: Policy | None = None,
    policy_drives: np.ndarray | None = None,
    steps: int = STEPS,
) -> Played:
    """Episodes from these states: driven by the planner if there is one, guided by the policy if there is one.

    Where `policy_drives`, the planner only says what it would do. Without a planner the policy drives alone.
    """
    read = near_fetch.Reader()
    goal = near_fetch.from_table(state.observation, state.table_height)[:, GOAL]
    plans = planner.begin(seeds) if planner else None
    drives = np.zeros(len(state), bool) if policy_drives is None else policy_drives
    observations, actions, states, advices = [state.observation], [], [], []
    for _ in range(steps):
        near = read(state)
        own = None if policy is None else np.asarray(act(policy, near, goal), float)
        if planner is None or plans is None:
            assert own is not None
            agreed = action = own
        else:
            guide = None if policy is None else Guidance(policy, planner.model, near, goal)
            plans, best = planner.plan(plans, near, near_fetch.delivery(goal), guide)
            action, agreed = best if own is None else np.where(drives[:, None], own, best), plans.agreed
        state = world.step(state, action)
        observations.append(state.observation)
        for kept, new in ((actions, action), (states, near), (advices, agreed)):
            kept.append(new)
    return Played(*(np.stack(kept, 1) for kept in (observations, actions, states, advices)))
