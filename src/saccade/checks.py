"""Errors a person can act on, and the checks that raise them.

Every message says what was given, what was wanted and what to do. Shapes are checked always; values only where
they are there to be looked at (inside `jax.jit` they are not).
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike


class SaccadeError(Exception):
    """Something the caller can put right; the command line prints it as one line and exits with code 2."""


class InputError(SaccadeError, ValueError):
    """An argument that does not fit: its message names what was wanted."""


class FileError(SaccadeError):
    """A file that cannot be read or written as asked: its message names the file and the way out."""


def check_choice(name: str, given: object, choices: Mapping[str, object] | tuple[str, ...]) -> None:
    """Raises unless `given` is one of the choices."""
    if given not in choices:
        raise InputError(f"{name} {given!r} is unknown: choose one of {', '.join(sorted(choices))}")


def check_array(
    name: str, given: ArrayLike | None, features: int, leading: tuple[int, ...] | None, wanted: str
) -> None:
    """Raises unless `given` is a finite array of `features` numbers for every index in `leading` (None: any)."""
    if given is None:
        raise InputError(f"{name} is missing: wanted an array {wanted} with {features} features")
    array = jnp.asarray(given)
    if array.ndim == 0 or array.shape[-1] != features:
        raise InputError(f"{name} has shape {array.shape}: wanted {wanted} with {features} features on the last axis")
    if leading is not None and array.shape[:-1] != leading:
        raise InputError(f"{name} has shape {array.shape}: wanted {(*leading, features)}, as the other inputs have")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise InputError(f"{name} holds {array.dtype}: wanted floating-point numbers; convert it first")


def check_finite(name: str, given: ArrayLike | None) -> None:
    """Raises if `given` holds NaN or infinite values; says nothing of values hidden by a transformation."""
    if given is None or isinstance(given, Tracer):
        return
    bad = ~np.isfinite(np.asarray(given))  # not by JAX: within a transformation it would hide the answer
    if bad.any():
        first = tuple(int(axis[0]) for axis in np.nonzero(bad))
        raise InputError(
            f"{name} holds {int(bad.sum())} NaN or infinite values, the first at index {first}: wanted finite numbers; "
            "repair or drop those sequences, or leave those steps out with a mask"
        )


def check_mask(mask: ArrayLike, leading: tuple[int, ...]) -> None:
    """Raises unless `mask` says of each (time, ...) whether it exists, and every sequence starts at step 0 unbroken."""
    array = mask if isinstance(mask, Tracer) else np.asarray(mask)
    if array.dtype != bool or array.shape != leading:
        raise InputError(f"mask is {array.dtype} of shape {array.shape}: wanted bool of shape {leading}")
    if isinstance(array, Tracer):
        return
    if (array[1:] & ~array[:-1]).any():
        raise InputError("mask has steps after a gap: wanted sequences from step 0 on, padding only at their end")
    shortest = int(array.sum(0).min()) if array.size else 0
    if shortest < 2:
        raise InputError(f"mask leaves a sequence of length {shortest}: wanted at least 2 time steps in each")
