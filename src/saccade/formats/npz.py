"""NumPy archives: arrays named as the fields of `Sequences`, all else as one JSON text named `about`."""

import json
import os
from pathlib import Path

import numpy as np

from saccade.checks import FileError
from saccade.files import replacing
from saccade.formats._common import origin, reading
from saccade.sequences import Sequences, check_values, from_parts

_KNOWN = ("observation", "action", "context", "length", "event", "kind")


def read(path: str | os.PathLike) -> Sequences:
    """Sequences from a .npz file that has at least `observation` (count, time + 1, n) and `action` (count, time, m)."""
    path = Path(path)
    wanted = "a .npz file with arrays observation (count, time + 1, n) and action (count, time, m)"
    # Opened here, since NumPy leaves the file open when it is no archive.
    with reading(path, wanted), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise FileError(f"{path} is a single array: wanted {wanted}")
        for name in ("observation", "action"):
            if name not in archive.files:
                raise FileError(
                    f"{path} has no array {name!r} but {', '.join(archive.files) or 'none at all'}: wanted {wanted}"
                )
        names = [name for name in archive.files if name in _KNOWN or name.startswith("column.")]
        about = json.loads(str(archive["about"])) if "about" in archive.files else {"origin": origin(path, "npz")}
        return from_parts({name: archive[name] for name in names}, about)


def write(sequences: Sequences, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes a .npz file with everything in it."""
    check_values(sequences)
    about = np.array(json.dumps(sequences.about(), sort_keys=True))
    with replacing(path, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, about=about, **sequences.arrays())
