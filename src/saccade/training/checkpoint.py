"""A group's state in files: the newest two checkpoints are kept, so that one may be damaged."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from saccade import saving
from saccade.checks import FileError


class Checkpoint(NamedTuple):
    """Where a training stood."""

    update: int
    """How many updates were done."""
    state: Any
    """The models and their optimisers, as a tree of NumPy arrays."""
    rows: list[dict[str, Any]]
    """All metrics so far."""


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint, and removes all but it and the one before."""
    path = folder / f"checkpoint-{checkpoint.update:09d}.safetensors"
    about = {"kind": "Checkpoint", "update": checkpoint.update, "rows": checkpoint.rows}
    saving.write(path, saving.named(checkpoint.state), about, overwrite=True)
    for old in _paths(folder)[:-2]:
        old.unlink()


def newest(folder: Path, skeleton: Any) -> Checkpoint | None:
    """The newest whole checkpoint whose state has the skeleton's shapes; None if there are no checkpoints at all.

    Damaged ones are set aside with a warning. If none is whole, nothing is begun anew over what they may still hold.
    """
    damaged: list[tuple[Path, FileError]] = []
    for path in reversed(_paths(folder)):
        try:
            about, tensors = saving.read(path)
            state = saving.fill(path, skeleton, tensors)
        except FileError as error:
            damaged.append((path, error))
            continue
        for other, error in damaged:
            aside = other.replace(other.with_suffix(".damaged"))
            warnings.warn(f"{error}; kept as {aside.name}, going on from update {about['update']}", stacklevel=2)
        return Checkpoint(about["update"], state, about["rows"])
    if damaged:
        raise FileError(f"{damaged[0][1]}; no checkpoint before it is whole: put one back, or begin another run")
    return None


def newest_update(folder: Path) -> int | None:
    """The update of the newest checkpoint, looked at by its name alone; None if there is none."""
    return max((int(path.stem.removeprefix("checkpoint-")) for path in _paths(folder)), default=None)


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.safetensors"))
