"""How fast scripted sequences are made, against how fast this machine can step the same physics at all."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo comes without types.

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import mujoco
import numpy as np

from saccade.checks import InputError
from saccade.worlds.fetch import PHYSICS, SUBSTEPS, Fetch, Rig, State, load_model
from saccade.worlds.scripted import KINDS, STEPS, generate


class _Recording(Fetch):
    """A world that keeps what it was asked to step, so that the very same physics can be stepped bare."""

    def __init__(self, workers: int | None):
        super().__init__(workers)
        self.asked: list[tuple[np.ndarray, np.ndarray]] = []

    def commanded(self, state: State, action: np.ndarray) -> np.ndarray:
        physics = super().commanded(state, action)
        self.asked.append((physics, state.table_height))
        return physics


def measure(
    sequences: int = 256, rounds: int = 2, workers: int | None = None, seed: int = 0
) -> dict[str, float | int | str | dict[str, float]]:
    """Sequences per second, and the share of the bare `mj_step` rate on all cores, from one run.

    In turns, `sequences` of each kind are made, and the physics this took, discarded tries too, is stepped again by
    threads that do nothing else: so both rates meet the same states, contacts and neighbours on the machine. Only kept
    sequences count as made. The time to load the model, once per run, is left out.
    """
    for name, given in (("sequences", sequences), ("rounds", rounds)):
        if given < 1:
            raise InputError(f"{name} is {given}: wanted at least 1")
    made: dict[str, list[float]] = {kind: [] for kind in KINDS}
    bare_steps = bare_seconds = 0.0
    discarded = 0
    with _Recording(workers) as world:
        rigs = [Rig(load_model()) for _ in range(world.workers)]
        for kind in KINDS:  # once unmeasured: starting poses, threads
            generate(kind, 2 * world.workers, seed=seed, world=world)
        for block in range(rounds):
            for kind in KINDS:
                world.asked.clear()
                with _timed(made[kind]):
                    discarded += generate(kind, sequences, seed=seed, first=block * sequences, world=world).discarded
                rate = _bare_rate(rigs, world.asked)
                steps = SUBSTEPS * sum(len(physics) for physics, _ in world.asked)
                bare_steps, bare_seconds = bare_steps + steps, bare_seconds + steps / rate
    seconds = sum(sum(times) for times in made.values())
    count = sequences * rounds * len(KINDS)
    per_second, bare = count / seconds, bare_steps / bare_seconds
    return {
        "sequences_per_s": per_second,
        "share_of_bare_rate": per_second * STEPS * SUBSTEPS / bare,
        "bare_steps_per_s": bare,
        "sequences_per_s_by_kind": {kind: sequences * rounds / sum(times) for kind, times in made.items()},
        "sequences": count,
        "discarded": discarded,
        "workers": len(rigs),
        "mujoco": mujoco.__version__,
    }


def _bare_rate(rigs: list[Rig], asked: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Physics steps per second, all threads together, each stepping its part of what was asked."""
    todo = [(physics, height) for states, heights in asked for physics, height in zip(states, heights, strict=True)]

    def step(which: int) -> float:
        rig, mine, times = rigs[which], todo[which :: len(rigs)], list[float]()
        with _timed(times):
            for physics, height in mine:
                rig.set_table(height)
                mujoco.mj_setState(rig.model, rig.data, physics, PHYSICS)
                mujoco.mj_step(rig.model, rig.data, nstep=SUBSTEPS)
        return SUBSTEPS * len(mine) / times[0]

    with ThreadPoolExecutor(len(rigs)) as pool:
        return sum(pool.map(step, range(len(rigs))))


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    into.append(time.perf_counter() - begin)
