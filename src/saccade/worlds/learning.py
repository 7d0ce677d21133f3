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
from saccade.worlds import apex, delivery, near_fetch
from saccade.worlds import policy as policies
from saccade.worlds.fetch import GOAL, Fetch

SEED = 42
PAPER = apex.Settings()
ROUNDS = ((64, PAPER), *[(64, apex.GUIDED)] * 11)  # episodes, and how they are planned
UPDATES = 6_000
TEST = 100


def learn(folder: Path) -> policies.Policy:
    """The policy after all rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    policy, seen, advice = None, [], []
    with Fetch() as world, near_fetch.model() as model:
        for number, (episodes, settings) in enumerate(ROUNDS):
            planner = apex.Planner(model, -np.ones(4), np.ones(4), settings)
            path = folder / f"round-{number:02d}.npz"
            if not path.exists():
                _round(path, world, planner, policy, number, episodes)
            with np.load(path) as found:
                seen.append(np.asarray(policies.look(found["state"], found["goal"])).reshape(-1, policies.FEATURES))
                advice.append(found["advice"].reshape(-1, 4))
                print(
                    f"round {number}: planner {found['planner']:.2f}, policy {found['policy']:.2f} delivered",
                    flush=True,
                )
            made = folder / f"policy-{number:02d}.safetensors"
            if made.exists():
                policy = policies.load(made)
                continue
            key = jax.random.fold_in(jax.random.key(SEED), number)
            policy, loss = policies.fit(
                policies.Policy(key=key), np.concatenate(seen), np.concatenate(advice), key=key, updates=UPDATES
            )
            test = delivery.play(world, delivery.starts(world, "test", SEED, range(TEST)), [], policy=policy)
            print(f"policy {number}: loss {loss:.4f}, alone delivers {test.delivered.mean():.2f}", flush=True)
            policies.save(policy, made, rounds=number + 1, seed=SEED, planner=asdict(settings), updates=UPDATES)
    assert policy is not None
    return policy


def _round(path: Path, world: Fetch, planner: apex.Planner, policy, number: int, episodes: int) -> None:
    state = delivery.starts(world, f"round {number}", SEED, range(episodes))
    drives = np.arange(episodes) % 2 == 1 if policy else np.zeros(episodes, bool)
    seeds = [(SEED, 1, number, episode) for episode in range(episodes)]
    played = delivery.play(world, state, seeds, planner=planner, policy=policy, policy_drives=drives)
    goal = near_fetch.from_table(state.observation, state.table_height)[:, GOAL]
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            state=played.state,
            goal=np.repeat(goal[:, None], played.state.shape[1], 1),
            advice=played.advice,
            planner=played.delivered[~drives].mean(),
            policy=played.delivered[drives].mean() if policy else np.nan,
        )


if __name__ == "__main__":
    learn(Path(sys.argv[1]))
