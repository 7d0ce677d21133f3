"""Sequences in other file formats: `read` and `write` find the right one from the path, or are told."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade import sequences as own
from saccade.checks import FileError, InputError, check_choice
from saccade.formats import apex_pickle, minari, npz, original, robomimic, table
from saccade.sequences import Sequences


@dataclass(frozen=True)
class Format:
    """How a format is read and, if it can be, written; `suffixes` are the endings it is known by."""

    about: str
    read: Callable[..., Sequences]
    write: Callable[..., None] | None = None
    suffixes: tuple[str, ...] = ()


FORMATS = {
    "saccade": Format("this library's own file", own.load, own.save, (".safetensors",)),
    "npz": Format("NumPy archive", npz.read, npz.write, (".npz",)),
    "csv": Format("table, one row per step", table.read_csv, table.write_csv, (".csv",)),
    "parquet": Format("table, one row per step", table.read_parquet, table.write_parquet, (".parquet",)),
    "robomimic": Format("robomimic HDF5", robomimic.read, robomimic.write, (".hdf5", ".h5")),
    "minari": Format("Minari dataset, a folder", minari.read),
    "original": Format("the authors' folders grasp/, point/, stretch/", original.read),
    "apex": Format("the authors' APEX rollouts, a pickle", apex_pickle.read, None, (".pkl", ".pickle")),
}


_LISTS = ("observation", "action", "context", "keys")
"""Options that name several things; a single one may stand alone."""


def read(path: str | os.PathLike, format: str | None = None, **options: Any) -> Sequences:
    """Sequences from a file or folder of any known format; `options` are those of its reader."""
    name = _guess(Path(path)) if format is None else format
    check_choice("format", name, FORMATS)
    known = list(inspect.signature(FORMATS[name].read).parameters)[1:]
    for option in options:
        if option not in known:
            raise InputError(f"option {option!r} is unknown to the format {name}: it has {', '.join(known) or 'none'}")
        if option in _LISTS and isinstance(options[option], str):
            options[option] = [options[option]]
    return FORMATS[name].read(path, **options)


def write(sequences: Sequences, path: str | os.PathLike, format: str | None = None, *, overwrite: bool = False) -> None:
    """Writes sequences in any format that can be written."""
    writable = {name: one for name, one in FORMATS.items() if one.write}
    suffix = Path(path).suffix
    name = next((name for name, one in writable.items() if suffix in one.suffixes), None) if format is None else format
    if name not in writable or not (save := writable[name].write):
        known = ", ".join(f"{name} ({', '.join(one.suffixes)})" for name, one in writable.items())
        raise InputError(f"{path} cannot be written as {name or 'its name says'}: choose one of {known}")
    save(sequences, path, overwrite=overwrite)


def _guess(path: Path) -> str:
    """The name of the format that a path looks like."""
    try:
        if not path.exists():
            raise FileError(f"{path} does not exist: wanted a file or folder of sequences")
        for name, one in FORMATS.items():
            if path.suffix in one.suffixes and path.is_file():
                return name
        if path.is_dir():
            if (path / "data" / "metadata.json").exists():
                return "minari"
            if (path / "obs.npy").exists() or any((path / name).is_dir() for name in ("grasp", "point", "stretch")):
                return "original"
        else:
            with path.open("rb") as file:
                if file.read(1) == b"\x80":  # how a pickle begins; the authors' file has no ending
                    return "apex"
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    known = ", ".join(f"{name} ({', '.join(one.suffixes) or one.about})" for name, one in FORMATS.items())
    raise FileError(f"{path} is of no known format: say which of {known}")
