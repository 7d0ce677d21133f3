"""Writing files so that nothing half-made is ever seen, and saying in each where it came from."""

import fcntl
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from saccade.checks import FileError


@contextmanager
def replacing(path: str | os.PathLike, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path to write to; it becomes `path` in one step if all goes well, and disappears if not.

    The temporary file lies beside its target, so that a full disk or a missing permission shows while writing.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        if path.exists() and not overwrite:
            raise FileError(f"{path} exists already: choose another name, or overwrite it explicitly")
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # where nothing could be written there is nothing to remove
            temporary.unlink()


@contextmanager
def only_one(folder: str | os.PathLike, doing: str) -> Iterator[None]:
    """Makes the folder and holds it for oneself; a second process that wants it is told so.

    The operating system lets go of it when a process ends, however it ends.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FileError(f"{folder} is in use: another process is {doing} there; wait or stop it") from error
            yield
    except OSError as error:
        raise FileError(f"{folder} cannot be written to: {error.strerror or error}; choose another folder") from error


def provenance() -> dict[str, str]:
    """The versions and the command behind what is being written."""
    packages = ("saccade", "jax", "jaxlib", "equinox", "numpy")
    return {
        **{package: version(package) for package in packages},
        "python": platform.python_version(),
        "command": " ".join([Path(sys.argv[0]).name.replace("__main__.py", "saccade"), *sys.argv[1:]]),
    }
