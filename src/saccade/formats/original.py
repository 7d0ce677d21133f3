"""The authors' published folders: grasp/, point/ and stretch/, each with obs.npy, next_obs.npy and actions.npy."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from saccade.checks import FileError, InputError
from saccade.formats._common import origin, reading
from saccade.sequences import Sequences

FETCH: dict[str, Any] = {
    "observation_names": (
        *("hand_x", "hand_y", "hand_z", "object_x", "object_y", "object_z"),
        *("finger_right", "finger_left", "goal_x", "goal_y", "goal_z"),
    ),
    "observation_units": ("m",) * 11,
    "action_names": ("move_x", "move_y", "move_z", "gripper"),
    "action_units": ("5 cm", "5 cm", "5 cm", ""),
    "entities": {"hand": (0, 1, 2), "object": (3, 4, 5), "goal": (8, 9, 10)},
}
"""What the 11 observations and 4 actions of Fetch Pick & Place are called."""

# Where hand, object, fingers and goal stand in the authors' arrays.
_PICKED = (0, 1, 2, 3, 4, 5, 9, 10, 28, 29, 30)
_KINDS = {"grasp": "reach", "point": "point", "stretch": "stretch"}
_LARGEST_JUMP = 1e-3
"""Metres that next_obs may differ from the following obs before they are not of one sequence."""


def read(path: str | os.PathLike, *, length: int = 25) -> Sequences:
    """The sequences of all folders that are there, cut to `length` actions (the paper's 25 of 50)."""
    path = Path(path)
    wanted = "a folder with grasp/, point/ or stretch/, each with obs.npy, next_obs.npy and actions.npy"
    if not path.is_dir():
        raise FileError(f"{path} is no folder: wanted {wanted}")
    folders = [path / name for name in _KINDS if (path / name).is_dir()]
    if not folders and (path / "obs.npy").exists() and path.name in _KINDS:
        folders = [path]
    if not folders:
        raise FileError(f"{path} has none of the folders {', '.join(_KINDS)}: wanted {wanted}")
    parts = []
    for folder in folders:
        with reading(folder, wanted):
            arrays = [
                np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                for name in ("obs", "next_obs", "actions")
            ]
            parts.append(pick(*arrays, length=length))
    with reading(path, wanted):
        return Sequences(
            np.concatenate([observation for observation, _ in parts]),
            np.concatenate([action for _, action in parts]),
            kind=np.repeat(np.arange(len(parts)), [len(action) for _, action in parts]),
            kind_names=tuple(_KINDS[folder.name] for folder in folders),
            origin=origin(path, "original", length=length),
            **FETCH,
        )


def pick(
    observation: np.ndarray, following: np.ndarray, action: np.ndarray, *, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Our observations and actions out of the authors' arrays (count, time, n); `following` is what came after each."""
    if length < 2:
        raise InputError(f"length is {length}: wanted 2 or more actions")
    if observation.ndim != 3 or observation.shape[2] <= _PICKED[-1] or observation.dtype.kind != "f":
        raise InputError(
            f"obs is {observation.dtype} of shape {observation.shape}: wanted numbers of shape (count, time, 31)"
        )
    if following.shape != observation.shape or following.dtype.kind != "f":
        raise InputError(
            f"next_obs is {following.dtype} of shape {following.shape}: wanted numbers of shape {observation.shape}, "
            "as obs has"
        )
    if action.shape != (*observation.shape[:2], 4):
        raise InputError(f"actions have shape {action.shape}: wanted {(*observation.shape[:2], 4)}, as obs has")
    if observation.shape[1] < length:
        raise InputError(
            f"sequences have {observation.shape[1]} actions: wanted at least length={length}; ask for fewer"
        )
    before = np.asarray(observation[:, :length, _PICKED], float)
    after = np.asarray(following[:, :length, _PICKED], float)
    jump = np.abs(before[:, 1:] - after[:, :-1])
    if (jump > _LARGEST_JUMP).any():
        sequence, step = np.argwhere((jump > _LARGEST_JUMP).any(2))[0]
        raise InputError(
            f"next_obs of sequence {sequence}, step {step} differs by {jump[sequence, step].max():.3g} m from the obs "
            "of the next step: wanted unbroken sequences; the arrays may be shuffled or of different sets"
        )
    return np.concatenate([before, after[:, -1:]], axis=1), np.asarray(action[:, :length])
