"""The scripted data set: three files of sequences, made block by block, so that a killed run goes on where it was."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from saccade import sequences
from saccade.checks import FileError, InputError, check_choice
from saccade.files import only_one
from saccade.sequences import Sequences
from saccade.worlds import fetch, scripted

PER_KIND = {"train": 3200, "validation": 3200, "test": 3200}  # the paper's set (section IV)
SEED = 42
BLOCK = 512  # sequences made between two saves: some five seconds' work
PACKAGES = ("saccade", "mujoco", "gymnasium-robotics", "numpy")
NAMES: dict[str, Any] = {
    "observation_names": fetch.OBSERVATION,
    "action_names": fetch.ACTION,
    "observation_units": ("m",) * len(fetch.OBSERVATION),
    "action_units": ("5 cm", "5 cm", "5 cm", "gripper"),
    "entities": {"hand": (0, 1, 2), "object": (3, 4, 5), "goal": (8, 9, 10)},
}

Progress = Callable[[str, int, int], None]


def make(
    folder: str | os.PathLike,
    per_kind: Mapping[str, int] = PER_KIND,
    *,
    seed: int = SEED,
    table_height: float | tuple[float, float] = scripted.TABLE_HEIGHTS,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Makes `train.safetensors` and the like in a folder, with so many sequences of each kind, and says where they are.

    Called again after an interruption it goes on from the last block; the files are the same, byte for byte, whatever
    the number of workers. Splits that are there already, made with the same settings, are left alone; files made
    otherwise are never touched. `progress` is told the split, how many sequences of it are done and how many wanted.
    """
    folder = Path(folder)
    if not per_kind or any(not isinstance(count, int) or count < 1 for count in per_kind.values()):
        raise InputError(f"per_kind is {dict(per_kind)}: wanted a count of at least 1 for each split")
    for split in per_kind:
        check_choice("split", split, scripted.SPLITS)
    heights = fetch.check_heights(table_height)
    wanted = {split: _origin(split, count, seed, heights) for split, count in per_kind.items()}

    def whole(split: str, parts: Path) -> Sequences:
        with fetch.Fetch(workers) as world:
            blocks = _blocks(world, parts, split, per_kind[split], seed, heights, wanted[split], progress)
        discarded = {kind: sum(block.origin["discarded"] for block in blocks[kind]) for kind in scripted.KINDS}
        together = sequences.concatenate([block for kind in scripted.KINDS for block in blocks[kind]])
        return replace(together, origin={**wanted[split], "discarded": discarded})

    return fill(folder, wanted, whole)


def fill(
    folder: Path, wanted: Mapping[str, Mapping[str, Any]], make: Callable[[str, Path], Sequences]
) -> dict[str, Path]:
    """A folder's splits, each with the origin that is wanted, made where they are not there yet.

    `make` is told which split, and where its blocks may be kept until all splits are there.
    """
    paths = {split: folder / f"{split}.safetensors" for split in wanted}
    missing = [split for split, path in paths.items() if not _is_there(path, wanted[split])]
    if not missing:
        return paths
    parts = folder / ".unfinished"
    with only_one(parts, "making sequences"):
        for left_over in (*parts.glob(".*.tmp"), *folder.glob(".*.safetensors.*.tmp")):  # of a run killed while writing
            left_over.unlink()
        for split in missing:
            sequences.save(make(split, parts), paths[split])
        shutil.rmtree(parts)
    return paths


def scripted_sequences(
    kind: str,
    count: int,
    *,
    seed: int,
    split: str = "train",
    first: int = 0,
    table_height: float | tuple[float, float] = scripted.TABLE_HEIGHTS,
    world: fetch.Fetch | None = None,
) -> Sequences:
    """So many scripted sequences of one kind, with names, units, entities and the script's phases as events.

    A claw's are of the kind reach-grasp-transport, which is what it does.
    """
    made = scripted.generate(kind, count, seed=seed, split=split, first=first, table_height=table_height, world=world)
    return Sequences(
        made.observation,
        made.action,
        event=made.event,
        kind=np.full(count, scripted.KINDS.index(scripted.KINDS[0] if kind == scripted.CLAW else kind), np.int8),
        columns={"table_height": made.table_height},
        event_names=scripted.EVENTS,
        kind_names=scripted.KINDS,
        **NAMES,
        origin={"discarded": made.discarded},
    )


def _blocks(
    world: fetch.Fetch,
    folder: Path,
    split: str,
    count: int,
    seed: int,
    heights: tuple[float, float],
    origin: Mapping[str, Any],
    progress: Progress | None,
) -> dict[str, list[Sequences]]:
    """The blocks of one split, each read if it is there and made if it is not."""
    blocks: dict[str, list[Sequences]] = {kind: [] for kind in scripted.KINDS}
    done = 0
    for kind in scripted.KINDS:
        for first in range(0, count, BLOCK):
            size = min(BLOCK, count - first)
            path = folder / f"{split} {kind} {first}.safetensors"
            scripted_block = partial(
                scripted_sequences, kind, size, seed=seed, split=split, first=first, table_height=heights, world=world
            )
            blocks[kind].append(kept(path, origin, scripted_block))
            done += size
            if progress:
                progress(split, done, count * len(scripted.KINDS))
    return blocks


def kept(path: Path, origin: Mapping[str, Any], make: Callable[[], Sequences]) -> Sequences:
    """A block of a set: read if an earlier run left it, made and kept for a later run if not."""
    block = _finished(path, origin)
    if block is None:
        block = make()
        block = replace(block, origin={**block.origin, "of": origin})
        sequences.save(block, path, overwrite=True)
    return block


def _finished(path: Path, origin: Mapping[str, Any]) -> Sequences | None:
    """A block of the same set that an earlier run left, if it is whole."""
    try:
        block = sequences.load(path)
        sequences.verify(path)
    except FileError:
        return None
    return block if block.origin.get("of") == origin else None


def _is_there(path: Path, origin: Mapping[str, Any]) -> bool:
    """Whether a file with these settings exists; raises if another one stands in its place."""
    if not os.path.exists(path):  # and not Path.exists, which fails in a folder that may not be entered
        return False
    found = dict(sequences.load(path).origin)
    found.pop("discarded", None)
    if found != origin:
        raise FileError(f"{path} exists already and was made otherwise: choose another folder, or remove it")
    return True


def _origin(split: str, count: int, seed: int, heights: tuple[float, float]) -> dict[str, Any]:
    """What a set says of itself; nothing in it depends on the machine or the number of workers."""
    return {
        "world": "Fetch Pick & Place",
        "script": list(scripted.KINDS),
        "split": split,
        "per_kind": count,
        "seed": seed,
        "steps": scripted.STEPS,
        "motor_noise": scripted.MOTOR_NOISE,
        "table_height": list(heights),
        "versions": {package: version(package) for package in PACKAGES},
        "command": f"saccade data scripted --{split} {count} --seed {seed} --table {heights[0]:g} {heights[1]:g}",
    }
