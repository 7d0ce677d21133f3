"""From gates to events: boundaries, skip targets, segments, and how well two segmentations agree.

A *boundary* at step t means that a new event begins with t. What training needs runs in JAX; what looks at finished
results runs in NumPy, on all sequences at once. Arrays are `(time, ...)`, padded sequences come with a mask.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from saccade.checks import InputError, check_choice

FromOpening = Literal["next_boundary", "next_step"]

# --- Boundaries and skip targets, in JAX ---------------------------------------------------------------------------


def openings(
    gate: Float[Array, "time *batch latent"], mask: Bool[Array, "time *batch"] | None = None
) -> Bool[Array, "time *batch"]:
    """The steps at which at least one gate opened."""
    if gate.ndim < 2:
        raise InputError(f"gate has shape {gate.shape}: wanted (time, ..., latent)")
    if mask is not None:
        _check_shape("mask", mask, gate.shape[:-1], "gate")
    opened = (gate > 0).any(-1)
    return opened if mask is None else opened & mask


def boundaries(
    gate: Float[Array, "time *batch latent"], mask: Bool[Array, "time *batch"] | None = None
) -> Bool[Array, "time *batch"]:
    """The steps that the skip network may predict: every opening, and each sequence's last step."""
    opened = openings(gate, mask)
    exists = jnp.ones(gate.shape[:-1], bool) if mask is None else mask
    has_next = jnp.concatenate([exists[1:], jnp.zeros_like(exists[:1])])
    return opened | (exists & ~has_next)


def next_boundary(boundary: Bool[Array, "time *batch"]) -> Int[Array, "time_but_last *batch"]:
    """For every step but the last: at which step the next boundary lies, strictly later.

    Steps with no boundary after them (in padding) are given the last step.
    """
    last = len(boundary) - 1
    step = jnp.arange(last + 1).reshape(-1, *[1] * (boundary.ndim - 1))
    return jax.lax.cummin(jnp.where(boundary, step, last), axis=0, reverse=True)[1:]


def skip_targets(
    observation: Float[Array, "time *batch size"],
    boundary: Bool[Array, "time *batch"],
    *,
    from_opening: FromOpening = "next_boundary",
) -> Float[Array, "time_but_last *batch size"]:
    """What the skip network should say at every step but the last: the observation at the next boundary.

    With `from_opening="next_step"` (the authors' implementation) a step that is a boundary itself is given the very
    next observation instead.
    """
    check_choice("from_opening", from_opening, ("next_boundary", "next_step"))
    if len(observation) < 2:
        raise InputError(f"the sequence has length {len(observation)}: wanted at least 2 time steps to skip between")
    _check_shape("boundary", boundary, observation.shape[:-1], "observation")
    at = next_boundary(boundary)
    if from_opening == "next_step":
        step = jnp.arange(len(at)).reshape(-1, *[1] * (boundary.ndim - 1))
        at = jnp.where(boundary[:-1], step + 1, at)
    return jnp.take_along_axis(observation, at[..., None], axis=0)


def strength(
    latent: Float[Array, "time *batch latent"], initial: Float[Array, "*batch latent"]
) -> Float[Array, "time *batch"]:
    """How far the latent state moved at every step, summed over dimensions; 0 where every gate was closed."""
    _check_shape("initial", initial, latent.shape[1:], "latent")
    return jnp.abs(jnp.diff(latent, axis=0, prepend=initial[None])).sum(-1)


def _check_shape(name: str, given: Array, wanted: tuple[int, ...], of: str) -> None:
    if jnp.shape(given) != wanted:
        raise InputError(f"{name} has shape {jnp.shape(given)}: wanted {wanted}, as {of} has")


# --- Segments and episodes, in NumPy -------------------------------------------------------------------------------


def episodes(opening: ArrayLike, strength: ArrayLike, *, minimum: float = 0.2, gap: int = 1) -> np.ndarray:
    """One boundary for each burst of openings, at its strongest step: a boolean array like `opening`.

    An arrival is often spread over several neighbouring steps. Openings weaker than `minimum` are left out; those
    that remain belong together when they lie at most `gap` steps apart. (0.2 of a latent whose dimensions lie between
    -1 and 1 agreed best with the scripts' transitions on training sequences, `docs/recipes.md`; 0 keeps everything.)
    """
    opening, strength = np.asarray(opening, bool), np.asarray(strength)
    if opening.shape != strength.shape:
        raise InputError(f"opening has shape {opening.shape}, strength {strength.shape}: wanted the same, (time, ...)")
    if gap < 0 or minimum < 0:
        raise InputError(f"minimum is {minimum}, gap is {gap}: wanted 0 or more for both")
    shape = opening.T.shape
    steps = opening.shape[0]
    # One sequence after the other, in one row, so that an episode is a run of this row.
    flat = np.flatnonzero((opening & (strength >= minimum) & (strength > 0)).T)
    found = np.zeros(opening.size, bool)
    if flat.size:
        begins = np.diff(flat, prepend=-1 - steps) > gap
        begins |= np.diff(flat // steps, prepend=-1) > 0
        episode = np.cumsum(begins)
        by_strength = np.lexsort((-strength.T.reshape(-1)[flat], episode))
        strongest = by_strength[np.diff(episode[by_strength], prepend=0) > 0]
        found[flat[strongest]] = True
    return found.reshape(shape).T


@dataclass(frozen=True)
class Segments:
    """A table of events, a row each, sequence by sequence."""

    sequence: np.ndarray
    """Which sequence, counted through the batch axes in order; 0 for a single one."""
    start: np.ndarray
    """First step."""
    end: np.ndarray
    """First step that no longer belongs to it."""
    code: np.ndarray
    """The latent state that stood for it (at its middle step): one row of latent dimensions each."""


def segments(boundary: ArrayLike, latent: ArrayLike, mask: ArrayLike | None = None) -> Segments:
    """The events between boundaries, each with the latent state that stands for it."""
    boundary, latent = np.asarray(boundary, bool), np.asarray(latent)
    if latent.shape[:-1] != boundary.shape:
        raise InputError(f"latent has shape {latent.shape}: wanted {(*boundary.shape, 'latent')}, as boundary has")
    if not len(boundary):
        raise InputError(f"boundary has shape {boundary.shape}: wanted (time, ...) with at least one step")
    exists = _exists(boundary, mask)
    begins = boundary & exists
    begins[0] = exists[0]
    latent = latent.reshape(len(boundary), -1, latent.shape[-1])
    begins, exists = begins.reshape(len(begins), -1).T, exists.reshape(len(exists), -1).T
    sequence, start = np.nonzero(begins)
    is_last = np.diff(sequence, append=-1) != 0
    end = np.where(is_last, exists.sum(1)[sequence], np.roll(start, -1))
    return Segments(sequence, start, end, latent[(start + end - 1) // 2, sequence])


def labels(boundary: ArrayLike) -> np.ndarray:
    """The number of the event that each step belongs to, from 0 in every sequence."""
    begins = np.asarray(boundary, bool).copy()
    begins[0] = False
    return begins.cumsum(0)


# --- Agreement of two segmentations, in NumPy ----------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """How many boundaries were found, how many are true, and how many of them are the same."""

    found: int
    true: int
    matched: int

    @property
    def precision(self) -> float:
        """The share of found boundaries that are true; NaN if none was found."""
        return self.matched / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """The share of true boundaries that were found; NaN if there are none."""
        return self.matched / self.true if self.true else float("nan")

    @property
    def f1(self) -> float:
        """The harmonic mean of both; NaN if nothing was found and nothing true."""
        return 2 * self.matched / (self.found + self.true) if self.found + self.true else float("nan")


def agreement(found: ArrayLike, true: ArrayLike, *, tolerance: int = 1, mask: ArrayLike | None = None) -> Agreement:
    """How many of the found boundaries lie within `tolerance` steps of a true one, each used once, over all sequences.

    As many pairs are made as can be. The first step of a sequence counts like any other, if marked.
    """
    found, true, exists = _pair(found, true, mask)
    if tolerance < 0:
        raise InputError(f"tolerance is {tolerance}: wanted a number of steps, 0 or more")
    unused, true = found & exists, true & exists
    total = int(unused.sum())
    matched = 0
    # Earliest true boundary first, each with the earliest found one that is left: the most pairs possible, since all
    # windows are equally wide.
    for step in np.flatnonzero(true.reshape(len(true), -1).any(1)):
        waiting = true[step].copy()
        for near in range(max(step - tolerance, 0), min(step + tolerance + 1, len(true))):
            taken = waiting & unused[near]
            unused[near] &= ~taken
            waiting &= ~taken
            matched += int(taken.sum())
    return Agreement(total, int(true.sum()), matched)


def covering(found: ArrayLike, true: ArrayLike, *, mask: ArrayLike | None = None) -> np.ndarray:
    """How well each true segment is covered by its best found one, weighted by length: 1 is perfect, per sequence.

    The measure of Arbelaez et al. (2011): the mean over steps of the intersection over union.
    """
    shared, shape = _shared_steps(found, true, mask)
    found_length, true_length = shared.sum(2)[:, :, None], shared.sum(1)[:, None, :]
    overlap = shared / np.maximum(found_length + true_length - shared, 1)
    return ((overlap.max(1) * true_length[:, 0]).sum(1) / shared.sum((1, 2))).reshape(shape)


def adjusted_rand(found: ArrayLike, true: ArrayLike, *, mask: ArrayLike | None = None) -> np.ndarray:
    """How alike two segmentations pair up steps, corrected for chance: 1 is perfect, 0 chance, per sequence."""
    shared, shape = _shared_steps(found, true, mask)

    def pairs(count):
        return count * (count - 1) / 2

    both = pairs(shared).sum((1, 2))
    of_found, of_true = pairs(shared.sum(2)).sum(1), pairs(shared.sum(1)).sum(1)
    by_chance = of_found * of_true / np.maximum(pairs(shared.sum((1, 2))), 1)  # a single step makes no pair
    most = (of_found + of_true) / 2
    same = most == by_chance  # both are one segment, or both cut every step off: nothing could agree better
    return np.where(same, 1.0, (both - by_chance) / np.where(same, 1, most - by_chance)).reshape(shape)


def _shared_steps(found, true, mask) -> tuple[np.ndarray, tuple[int, ...]]:
    """For every sequence, how many steps each found and each true segment have in common."""
    found, true, exists = _pair(found, true, mask)
    found_label, true_label = labels(found), labels(true)
    shape = found.shape[1:]
    sequence = np.broadcast_to(np.arange(int(np.prod(shape, dtype=int))).reshape(shape), found.shape)
    shared = np.zeros((sequence.max() + 1, found_label.max() + 1, true_label.max() + 1))
    np.add.at(shared, (sequence[exists], found_label[exists], true_label[exists]), 1)
    return shared, shape


def _pair(found, true, mask) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found, true = np.asarray(found, bool), np.asarray(true, bool)
    if found.shape != true.shape or found.ndim == 0 or len(found) == 0:
        raise InputError(f"found has shape {found.shape}, true {true.shape}: wanted the same, (time, ...)")
    return found, true, _exists(found, mask)


def _exists(boundary: np.ndarray, mask: ArrayLike | None) -> np.ndarray:
    exists = np.ones(boundary.shape, bool) if mask is None else np.asarray(mask, bool)
    if exists.shape != boundary.shape:
        raise InputError(f"mask has shape {exists.shape}: wanted {boundary.shape}, as the boundaries have")
    return exists
