"""Learns the policy that comes with the package: `python -m saccade.worlds.learning FOLDER` makes it anew.

In rounds: the planner, guided by the policy learned so far, plans at every step of some episodes; it drives half of
them itself and lets the policy drive the others, so that the policy learns what to do where its own mistakes lead
(DAgger).
Then the policy learns from all rounds. What is finished is kept in the folder: killed, the same command goes on.
"""

import sys
from dataclasses import asdict
from pathlib import Path

import jax
import numpy as np

from saccade.files import replacing
from saccade.worlds import apex, delivery, near_fetch, policy
from saccade.worlds.fetch import GOAL, Fetch

SEED = 42
# Episodes of each round, and how they are planned; before there is a policy, the planner needs all its trajectories.
ROUNDS = ((64, apex.Settings()), *[(64, apex.GUIDED)] * 12)
UPDATES, LAST_UPDATES = 12_000, 40_000  # after each round, and after the last
TEST = 100  # episodes that the policy alone is tried in after each round


def learn(folder: Path) -> Path:
    """Goes through all rounds, and says where the last policy is."""
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [folder / f"round-{number:02d}.npz" for number in range(len(ROUNDS))]
    policies = [path.with_name(path.stem.replace("round", "policy") + ".safetensors") for path in rounds]
    with Fetch() as world, near_fetch.model() as model:
        for number, (episodes, settings) in enumerate(ROUNDS):
            if not rounds[number].exists():
                planner = apex.Planner(model, -np.ones(4), np.ones(4), settings)
                guide = policy.load(policies[number - 1]) if number else None
                _round(rounds[number], world, planner, guide, number, episodes)
            last = number == len(ROUNDS) - 1
            if not policies[number].exists() and (last or not rounds[number + 1].exists()):
                _fit(policies[number], world, rounds[: number + 1], LAST_UPDATES if last else UPDATES)
    return policies[-1]


def _fit(path: Path, world: Fetch, rounds: list[Path], updates: int) -> None:
    """What can be learned from these rounds."""
    seen, advice = [], []
    for made in rounds:
        with np.load(made) as found:
            seen.append(np.asarray(policy.look(found["state"], found["goal"])).reshape(-1, policy.FEATURES))
            advice.append(found["advice"].reshape(-1, 4))
    key = jax.random.fold_in(jax.random.key(SEED), len(rounds))
    untrained = policy.Policy(key=key)
    learned, loss = policy.fit(untrained, np.concatenate(seen), np.concatenate(advice), key=key, updates=updates)
    alone = delivery.play(world, delivery.starts(world, "test", SEED, range(TEST)), [], policy=learned).delivered.mean()
    print(f"{path.stem}: mean squared error {loss:.4f}, alone it delivers {alone:.2f}", flush=True)
    policy.save(learned, path, rounds=len(rounds), seed=SEED, updates=updates, planner=asdict(apex.GUIDED))


def _round(
    path: Path, world: Fetch, planner: apex.Planner, guide: policy.Policy | None, number: int, episodes: int
) -> None:
    """Episodes in which the planner says at every step what to do, every second one driven by the policy."""
    state = delivery.starts(world, f"round {number}", SEED, range(episodes))
    drives = np.arange(episodes) % 2 == 1 if guide else np.zeros(episodes, bool)
    seeds = [(SEED, 1, number, episode) for episode in range(episodes)]
    played = delivery.play(world, state, seeds, planner=planner, policy=guide, policy_drives=drives)
    goal = near_fetch.from_table(state.observation, state.table_height)[:, GOAL]
    own, others = played.delivered[~drives].mean(), played.delivered[drives].mean() if guide else np.nan
    print(f"{path.stem}: delivered by the planner {own:.2f}, by the policy {others:.2f}", flush=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        every_step = np.repeat(goal[:, None], played.state.shape[1], axis=1)
        np.savez(file, state=played.state, goal=every_step, advice=played.advice)


if __name__ == "__main__":
    print(f"the policy to ship: {learn(Path(sys.argv[1]))}")
