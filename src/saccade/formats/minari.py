"""Minari datasets: the folder of one dataset, as the library keeps it in ~/.minari/datasets/<name>."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from saccade.checks import FileError, InputError
from saccade.formats._common import from_parts_of_observation, optional, origin, reading
from saccade.sequences import Sequences


def read(path: str | os.PathLike, *, keys: Sequence[str] | None = None) -> Sequences:
    """The episodes of a dataset; where observations have named parts, `keys` says which are taken, else all vectors."""
    path = Path(path)
    minari = optional("minari", "minari")
    wanted = "the folder of a Minari dataset, with data/metadata.json in it"
    with reading(path, wanted):
        metadata = json.loads((path / "data" / "metadata.json").read_text(encoding="utf-8"))
        # Without them Minari would build the environment that the file names: running what a data file says.
        for name in ("observation_space", "action_space"):
            if not isinstance(metadata.get(name), str):
                raise FileError(
                    f"{path} does not say its {name}: wanted one written by Minari 0.5 or later; convert it with Minari"
                )
        observations, actions = [], []
        for episode in minari.MinariDataset(path / "data").iterate_episodes():
            action = np.asarray(episode.actions)
            if action.ndim != 2 or action.dtype.kind != "f":
                raise InputError(
                    f"its actions are {action.dtype} of shape {action.shape}: wanted a vector of numbers at every step"
                )
            observations.append(_vectors(episode.observations, keys))
            actions.append(action)
        if not actions:
            raise InputError(f"it has no episodes: wanted {wanted}")
        note = origin(path, "minari", dataset=metadata.get("dataset_id"), minari_version=metadata.get("minari_version"))
        return from_parts_of_observation(observations, actions, origin=note)


def _vectors(observation, keys: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The parts of an episode's observations that are vectors of numbers at every step."""
    parts = {
        name: np.asarray(part)
        for name, part in (observation if isinstance(observation, dict) else {"observation": observation}).items()
    }
    vectors = {name: part for name, part in parts.items() if part.ndim == 2 and part.dtype.kind in "fiub"}
    for key in keys or ():
        if key not in vectors:
            raise InputError(f"its observations have no vector {key!r}: choose from {', '.join(vectors)}")
    if not vectors:
        shapes = ", ".join(f"{name} {part.shape}" for name, part in parts.items())
        raise InputError(f"its observations are {shapes}: wanted vectors of numbers")
    return {key: vectors[key] for key in (keys or vectors)}
