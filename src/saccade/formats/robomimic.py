"""robomimic's HDF5 files: data/demo_<n> with actions, obs/<key> and next_obs/<key>."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from saccade.checks import InputError
from saccade.files import replacing
from saccade.formats._common import from_parts_of_observation, optional, origin, reading
from saccade.sequences import Sequences, check_values, from_episodes, from_parts

_WANTED = "a robomimic file with data/demo_0/actions and data/demo_0/obs"


def read(path: str | os.PathLike, *, keys: Sequence[str] | None = None, subset: str | None = None) -> Sequences:
    """The demonstrations of a file, or of one of its subsets (filter keys); without `keys`, all vectors in obs.

    Without next_obs the last action of each is dropped, as nothing shows what followed it.
    """
    path = Path(path)
    h5py = optional("h5py", "robomimic")
    with reading(path, _WANTED), h5py.File(path, "r") as content:
        if "data" not in content:
            raise InputError(f"it has no group 'data' but {', '.join(content) or 'nothing'}: wanted {_WANTED}")
        data = content["data"]
        names = [name for name in data if name.startswith("demo_")]
        for name in names:
            if not name.removeprefix("demo_").isdecimal():
                raise InputError(f"it has a group {name!r}: wanted demo_<number>")
        names.sort(key=lambda name: int(name.removeprefix("demo_")))
        if subset is not None:
            if subset not in content.get("mask", ()):
                raise InputError(
                    f"it has no subset {subset!r}: choose from {', '.join(content.get('mask', ())) or 'none'}"
                )
            chosen = {name.decode() for name in content["mask"][subset][:]}
            names = [name for name in names if name in chosen]
        if not names:
            raise InputError(f"it has no demonstrations: wanted {_WANTED}")
        about = json.loads(data.attrs["saccade"]) if "saccade" in data.attrs else None
        observations, actions, contexts, events = [], [], [], []
        for name in names:
            demo = data[name]
            action = demo["actions"][:]
            if action.ndim != 2:
                raise InputError(f"actions of {name} have shape {action.shape}: wanted (steps, n)")
            if demo.attrs.get("num_samples", len(action)) != len(action):
                raise InputError(
                    f"{name} has {len(action)} actions: wanted {demo.attrs['num_samples']}, as its num_samples says"
                )
            observation = _vectors(demo, name, keys)
            if "next_obs" in demo:
                following = {
                    key: part[-1:] for key, part in _vectors(demo, name, list(observation), "next_obs").items()
                }
                observation = {key: np.concatenate([part, following[key]]) for key, part in observation.items()}
            else:
                action = action[:-1]
            observations.append(observation)
            actions.append(action)
            if about is not None:
                contexts += [demo["context"][:]] if "context" in demo else []
                events += [demo["event"][:]] if "event" in demo else []
        if about is None or keys is not None:
            note = origin(path, "robomimic", subset=subset, environment=data.attrs.get("env_args"))
            return from_parts_of_observation(observations, actions, origin=note)
        whole = [part["observation"] for part in observations]
        arrays = from_episodes(whole, actions, contexts or None, events or None).arrays()
        attributes = [data[name].attrs for name in names]
        for key in attributes[0]:
            if key == "kind" or key.startswith("column."):
                arrays[key] = np.array([one[key] for one in attributes])
        return from_parts(arrays, about)


def _vectors(demo, name: str, keys: Sequence[str] | None, group: str = "obs") -> dict[str, np.ndarray]:
    if group not in demo:
        raise InputError(
            f"{name} has no group {group!r} but {', '.join(demo)}: extract observations with robomimic first"
        )
    vectors = [key for key, part in demo[group].items() if getattr(part, "ndim", 0) == 2 and part.dtype.kind in "fiub"]
    for key in keys or ():
        if key not in vectors:
            raise InputError(f"{name}/{group} has no vector {key!r}: choose from {', '.join(vectors)}")
    if not vectors:
        raise InputError(
            f"{name}/{group} has {', '.join(demo[group]) or 'nothing'}: wanted vectors of numbers at every step"
        )
    return {key: demo[group][key][:] for key in (keys or vectors)}


def write(sequences: Sequences, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes a file that robomimic can train on, with all of an observation under the key `observation`."""
    check_values(sequences)
    h5py = optional("h5py", "robomimic")
    # In memory first: HDF5 does not reliably tell when a disk is full.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = int(sequences.lengths.sum())
        data.attrs["env_args"] = json.dumps({"env_name": "saccade", "env_type": 2, "env_kwargs": {}})
        data.attrs["saccade"] = json.dumps(sequences.about(), sort_keys=True)
        for number, length in enumerate(sequences.lengths.tolist()):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            demo["actions"] = sequences.action[number, :length]
            demo["obs/observation"] = sequences.observation[number, :length]
            demo["next_obs/observation"] = sequences.observation[number, 1 : length + 1]
            demo["rewards"] = np.zeros(length, np.float32)
            demo["dones"] = np.arange(length) == length - 1
            if sequences.context is not None:
                demo["context"] = sequences.context[number, :length]
            if sequences.event is not None:
                demo["event"] = sequences.event[number, :length]
            if sequences.kind is not None:
                demo.attrs["kind"] = sequences.kind[number]
            for name, column in sequences.columns.items():
                demo.attrs[f"column.{name}"] = column[number]
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content.getbuffer())
