"""The diverse data set: a planner and its policy bring the object to the goal, however they like.

What they did is told from what was seen, by the rules of `ways` and `events`.
"""

import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade import sequences
from saccade.checks import InputError, check_choice
from saccade.sequences import Sequences
from saccade.worlds import apex, delivery, near_fetch, scripted
from saccade.worlds import policy as policies
from saccade.worlds.dataset import NAMES, PACKAGES, SEED, Progress, fill, kept
from saccade.worlds.fetch import FINGERS, GOAL, HAND, NEAR, OBJECT, USUAL_HEIGHT, Fetch

COUNTS = {"train": 9600, "validation": 3200, "test": 3200}  # the paper's set (section IV)
STEPS = scripted.STEPS
WAYS = ("lift", "push", "flick", "fail")
LIFT, PUSH, FLICK, FAIL = range(len(WAYS))
EVENTS = ("approach", "move", "air", "arrived")
BLOCK = 64  # sequences planned at once, and between two saves

TOUCHED = 0.002  # metres the object has moved when it counts as touched
LIFTED = 0.01  # metres above where it lay, from which the object is in the air
HELD = 0.03  # metres between hand and object, up to which it can be between the fingers
BEYOND = np.array([0.05, 0.05, 0.055])  # metres aside of the hand, aside of a finger, below it: where no finger touches
FLOWN = 0.03  # metres that a flicked object moves on its own


def make(
    folder: str | os.PathLike,
    counts: Mapping[str, int] = COUNTS,
    *,
    seed: int = SEED,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Makes `train.safetensors` and the like in a folder, with so many sequences each, and says where they are.

    Called again after an interruption it goes on from the last block. The same seed gives the same bytes.
    """
    if not counts or any(not isinstance(count, int) or count < 1 for count in counts.values()):
        raise InputError(f"counts is {dict(counts)}: wanted at least 1 for each split")
    for split in counts:
        check_choice("split", split, scripted.SPLITS)
    wanted = {split: _origin(split, count, seed) for split, count in counts.items()}
    policy = policies.load()

    def whole(split: str, parts: Path) -> Sequences:
        blocks = []
        with Fetch(workers) as world, near_fetch.model(workers) as model:
            planner = apex.Planner(model, -np.ones(4), np.ones(4), apex.GUIDED)
            for first in range(0, counts[split], BLOCK):
                numbers = range(first, min(first + BLOCK, counts[split]))
                made = partial(_block, world, planner, policy, split, seed, numbers)
                blocks.append(kept(parts / f"{split} diverse {first}.safetensors", wanted[split], made))
                if progress:
                    progress(split, numbers.stop, counts[split])
        return replace(sequences.concatenate(blocks), origin=wanted[split])

    return fill(Path(folder), wanted, whole)


def _block(
    world: Fetch, planner: apex.Planner, policy: policies.Policy, split: str, seed: int, numbers: range
) -> Sequences:
    state = delivery.starts(world, f"diverse {split}", seed, numbers)
    seeds = [(seed, zlib.crc32(split.encode()), number) for number in numbers]
    played = delivery.play(world, state, seeds, planner=planner, policy=policy, steps=STEPS)
    observation = played.observation
    way = ways(observation)
    return Sequences(
        observation,
        played.action,
        event=events(observation)[:, :-1],
        kind=way.astype(np.int8),
        columns={
            "table_height": np.full(len(way), USUAL_HEIGHT),
            "grasp": grasps(observation).astype(float),
        },
        event_names=EVENTS,
        kind_names=WAYS,
        **NAMES,
    )


def events(observation: Float[np.ndarray, "count rows 11"]) -> Int[np.ndarray, "count rows"]:
    """What is going on in each row: approach, move (on the table), air, or arrived (within 5 cm of the goal).

    Approaching ends, for good, when the object is touched: 2 mm away from where it lay. In the air it is 1 cm above
    that. Boundaries are thus contact, lift-off or landing, and arrival.
    """
    thing = observation[..., OBJECT]
    away = np.linalg.norm(thing - thing[:, :1], axis=-1)
    touched = np.maximum.accumulate(away > TOUCHED, axis=1)
    event = np.where(touched, EVENTS.index("move"), EVENTS.index("approach"))
    event = np.where(_in_air(observation), EVENTS.index("air"), event)
    return np.where(_arrived(observation), EVENTS.index("arrived"), event).astype(np.int8)


def ways(observation: Float[np.ndarray, "count rows 11"]) -> Int[np.ndarray, " count"]:
    """How each sequence moved the object, an index of `WAYS`.

    fail: in the end it is not within 5 cm of the goal. Else flick: it moved 3 cm or more on its own, out of the
    fingers' reach. Else lift: in the air within 3 cm of the hand in three rows or more. Else push.
    """
    apart = np.linalg.norm(observation[..., OBJECT] - observation[..., HAND], axis=-1)
    moved = np.linalg.norm(np.diff(observation[..., OBJECT], axis=1), axis=-1)
    alone = _alone(observation)
    flown = np.where(alone[:, 1:] & alone[:, :-1], moved, 0).sum(1) >= FLOWN
    carried = (_in_air(observation) & (apart < HELD)).sum(1) >= 3
    way = np.where(flown, FLICK, np.where(carried, LIFT, PUSH))
    return np.where(_arrived(observation)[:, -1], way, FAIL)


def grasps(observation: Float[np.ndarray, "count rows 11"]) -> Bool[np.ndarray, " count"]:
    """Which sequences are grasps as in a picture book: reached, grasped, lifted to a goal in the air, never dropped."""
    apart = np.linalg.norm(observation[..., OBJECT] - observation[..., HAND], axis=-1)
    air = _in_air(observation)
    opened = (observation[..., FINGERS].sum(-1) > 0.055).any(1)  # wider than the object, before it is taken
    never_dropped = (~air | (apart < HELD)).all(1)
    return (ways(observation) == LIFT) & air[:, -1] & opened & never_dropped


def _alone(observation: np.ndarray) -> np.ndarray:
    """Where no finger can touch the object: 5 cm aside of the hand in x, of a finger in y, or 5.5 cm below the hand."""
    away = observation[..., OBJECT] - observation[..., HAND]
    opening = observation[..., FINGERS].max(-1)
    beyond = np.stack([np.abs(away[..., 0]), np.abs(away[..., 1]) - opening, -away[..., 2]], -1)
    return np.any(beyond > BEYOND, axis=-1)


def _in_air(observation: np.ndarray) -> np.ndarray:
    height = observation[..., OBJECT.stop - 1]
    return height - height[:, :1] > LIFTED


def _arrived(observation: np.ndarray) -> np.ndarray:
    return np.linalg.norm(observation[..., OBJECT] - observation[..., GOAL], axis=-1) < NEAR


def _origin(split: str, count: int, seed: int) -> dict[str, Any]:
    return {
        "world": "Fetch Pick & Place",
        "planner": asdict(apex.GUIDED),
        "split": split,
        "count": count,
        "seed": seed,
        "steps": STEPS,
        "rules": {"touched": TOUCHED, "lifted": LIFTED, "held": HELD, "beyond": BEYOND.tolist(), "flown": FLOWN},
        "versions": {package: version(package) for package in PACKAGES},
        "command": f"saccade data apex --{split} {count} --seed {seed}",
    }
