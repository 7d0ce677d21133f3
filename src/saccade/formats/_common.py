"""What the readers share: errors that name the file, optional packages, and observations given as named parts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from saccade.checks import FileError, InputError, SaccadeError
from saccade.sequences import Sequences, from_episodes


@contextmanager
def reading(path: Path, wanted: str) -> Iterator[None]:
    """Turns whatever goes wrong with a file into one line that names it and says what was `wanted` in it."""
    try:
        yield
    except InputError as error:
        raise FileError(f"{path}: {error}") from error
    except SaccadeError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{error.filename or path} does not exist: wanted {wanted}") from error
    except MemoryError as error:
        raise FileError(f"{path} does not fit into memory, or claims sizes it has not: wanted {wanted}") from error
    except Exception as error:  # the libraries raise a dozen kinds for a broken file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{path} cannot be read ({reason}): wanted {wanted}; it may be cut short or damaged") from error


def optional(module: str, extra: str) -> ModuleType:
    """A module that only some installations have."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise SaccadeError(f'{package} is not installed: pip install "saccade[{extra}]"') from error


def origin(path: Path, form: str, **more: Any) -> dict[str, Any]:
    """Where sequences come from that were read from a file of another format."""
    return {"read_from": path.name, "format": form, **more}


def from_parts_of_observation(
    observations: Sequence[Mapping[str, np.ndarray]], actions: Sequence[np.ndarray], **rest: Any
) -> Sequences:
    """Sequences from episodes whose observations have named parts, each (rows, n): every part becomes an entity."""
    widths = {name: part.shape[1] for name, part in observations[0].items()}
    entities, names, end = {}, [], 0
    for name, width in widths.items():
        entities[name] = tuple(range(end, end + width))
        names += [f"{name}_{index}" for index in range(width)]
        end += width
    joined = []
    for index, (episode, action) in enumerate(zip(observations, actions, strict=True)):
        wanted = {name: (len(action) + 1, width) for name, width in widths.items()}
        given = {name: part.shape for name, part in episode.items()}
        if given != wanted:
            raise InputError(
                f"observation of episode {index} has shapes {given}: wanted {wanted}, "
                "as its actions and the first episode have"
            )
        joined.append(np.concatenate(list(episode.values()), axis=1))
    return from_episodes(joined, actions, observation_names=tuple(names), entities=entities, **rest)
