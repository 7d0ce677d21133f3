"""Sequences of observations and actions: the one data structure that everything else speaks, and its file.

Arrays are sequence-major, `(count, time, feature)`; models want them time-major, which is what `batch` gives. A file is
safetensors with one JSON text inside; loading maps it into memory without reading it, and executes nothing.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import safetensors

from saccade.checks import FileError, InputError
from saccade.files import replacing

FORMAT_VERSION = 1
_CHUNK = 4096
"""How many sequences are looked at in one go where a file may be larger than memory."""
_DTYPES = {"F64": np.float64, "F32": np.float32, "I32": np.int32, "I16": np.int16, "I8": np.int8}
_COLUMN = "column."

Index = int | slice | str | Sequence[int] | Sequence[bool] | np.ndarray


@dataclass(frozen=True, eq=False)
class Sequences:
    """Observations, actions and what is known about them, for `count` sequences of up to `time` actions each.

    Arrays are converted to the types given here, and checked. The values of memory-mapped arrays are checked when they
    are saved, not before, so that a large file opens at once.
    """

    observation: np.ndarray
    """float32 (count, time + 1, observation): row t + 1 is what followed action t."""
    action: np.ndarray
    """float32 (count, time, action); there may be 0 actions."""
    context: np.ndarray | None = None
    """float32 (count, time, context): further inputs of every step."""
    length: np.ndarray | None = None
    """int32 (count,): how many actions of each sequence exist, the rest being padding. None: all of them."""
    event: np.ndarray | None = None
    """int8 or int16 (count, time): the true event of each step, an index of `event_names`, or -1 where unknown."""
    kind: np.ndarray | None = None
    """int8 (count,): what kind of sequence it is, an index of `kind_names`."""
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """float64 (count,) each: further numbers known of every sequence, such as the height of its table."""
    event_names: tuple[str, ...] = ()
    kind_names: tuple[str, ...] = ()
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    context_names: tuple[str, ...] = ()
    observation_units: tuple[str, ...] = ()
    action_units: tuple[str, ...] = ()
    context_units: tuple[str, ...] = ()
    entities: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Which dimensions of the observation describe which thing, as in {"hand": (0, 1, 2)}."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where all this came from, in what JSON can hold: settings, seed, versions, command, counts."""

    def __post_init__(self):
        def put(**values):
            for name, value in values.items():
                object.__setattr__(self, name, value)

        put(observation=_floats("observation", self.observation, "(count, time + 1, observation)"))
        put(action=_floats("action", self.action, "(count, time, action), with 0 actions if there are none"))
        count, rows, width = self.observation.shape
        if count == 0 or width == 0:
            raise InputError(
                f"observation has shape {self.observation.shape}: wanted at least one sequence and dimension"
            )
        if rows < 3:
            raise InputError(
                f"observation has {rows} rows: wanted at least 3, those of 2 actions and what followed the last"
            )
        if self.action.shape[:2] != (count, rows - 1):
            raise InputError(
                f"action has shape {self.action.shape} for an observation of shape {self.observation.shape}: wanted "
                f"{(count, rows - 1)} first, one row fewer than observations, since the last shows what followed"
            )
        steps = (count, rows - 1)
        if self.context is not None:
            put(context=_floats("context", self.context, "(count, time, context)"))
            _shaped("context", self.context, (*steps, self.context.shape[2]))
        if self.length is not None:
            put(length=_integers("length", self.length, (count,), np.int32))
            outside = (self.length < 2) | (self.length > steps[1])
            if outside.any():
                first = int(outside.argmax())
                raise InputError(
                    f"sequence {first} has length {self.length[first]}: wanted 2 to {steps[1]} actions, as action has"
                )
        for name, shape, narrow in (("event", steps, np.int16), ("kind", (count,), np.int8)):
            names = _texts(f"{name}_names", getattr(self, f"{name}_names"))
            given = getattr(self, name)
            if given is not None:
                given = _integers(name, given, shape, narrow)
                names = names or tuple(f"{name}_{index}" for index in range(int(given.max(initial=-1)) + 1))
            put(**{name: given, f"{name}_names": names})
        for group, size in self.sizes.items():
            names = _texts(f"{group}_names", getattr(self, f"{group}_names"))
            names = names or tuple(f"{group}_{index}" for index in range(size))
            units = tuple(map(str, getattr(self, f"{group}_units"))) or ("",) * size
            for what, texts in (("names", names), ("units", units)):
                if len(texts) != size:
                    raise InputError(f"{group} has {size} dimensions but {len(texts)} {what}: wanted one for each")
            put(**{f"{group}_names": names, f"{group}_units": units})
        put(entities={str(name): tuple(int(i) for i in dimensions) for name, dimensions in self.entities.items()})
        for name, dimensions in self.entities.items():
            if not dimensions or not all(0 <= index < width for index in dimensions):
                raise InputError(f"entity {name!r} has dimensions {dimensions}: wanted some of 0 to {width - 1}")
        put(columns={str(name): _column(name, array, count) for name, array in self.columns.items()})
        put(origin=_plain(self.origin))
        if not any(isinstance(array, np.memmap) for array in self.arrays().values()):
            check_values(self)

    def __len__(self) -> int:
        return len(self.observation)

    def __iter__(self) -> Iterator["Sequences"]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Index) -> "Sequences":
        """Some of the sequences: by number, slice, array of numbers or booleans, or the name of a kind."""
        chosen = _chosen(self, index)
        parts = {name: array[chosen] for name, array in self.arrays().items()}
        return from_parts(parts, self.about())

    @property
    def time(self) -> int:
        """How many actions the longest sequence can have."""
        return self.action.shape[1]

    @property
    def sizes(self) -> dict[str, int]:
        """How many dimensions observation, action and context have."""
        context = 0 if self.context is None else self.context.shape[2]
        return {"observation": self.observation.shape[2], "action": self.action.shape[2], "context": context}

    @property
    def lengths(self) -> np.ndarray:
        """How many actions each sequence has, whether or not all have the same number."""
        return np.full(len(self), self.time, np.int32) if self.length is None else self.length

    @property
    def mask(self) -> np.ndarray:
        """True where an action exists: bool (count, time)."""
        return np.arange(self.time) < self.lengths[:, None]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, without those that are None; those of `columns` are named `column.<name>`."""
        named = {name: getattr(self, name) for name in ("observation", "action", "context", "length", "event", "kind")}
        named |= {_COLUMN + name: array for name, array in self.columns.items()}
        return {name: array for name, array in named.items() if array is not None}

    def about(self) -> dict[str, Any]:
        """Everything but the arrays, in what JSON can hold."""
        arrays = {"observation", "action", "context", "length", "event", "kind", "columns"}
        about = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in arrays}
        # A list, since the order of entities means something and JSON's is sorted for identical files.
        return {**about, "entities": [[name, list(dimensions)] for name, dimensions in self.entities.items()]}


def from_parts(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Sequences:
    """The sequences whose `arrays()` and `about()` are given."""
    own = {name: array for name, array in arrays.items() if not name.startswith(_COLUMN)}
    columns = {name.removeprefix(_COLUMN): array for name, array in arrays.items() if name.startswith(_COLUMN)}
    about = {name: tuple(value) if isinstance(value, list) else value for name, value in about.items()}
    about["entities"] = {name: tuple(dimensions) for name, dimensions in about.get("entities", ())}
    return Sequences(**own, columns=columns, **about)


def from_episodes(
    observations: Sequence[np.ndarray],
    actions: Sequence[np.ndarray],
    contexts: Sequence[np.ndarray] | None = None,
    events: Sequence[np.ndarray] | None = None,
    **rest: Any,
) -> Sequences:
    """Sequences from separate episodes, padded to the longest: observations of n + 1 rows, all else of n.

    `rest` are further fields of `Sequences`.
    """
    if not len(observations) or len(observations) != len(actions):
        raise InputError(
            f"{len(observations)} observations and {len(actions)} actions: wanted one of each per episode, at least one"
        )
    lengths = np.array([len(action) for action in actions])
    padded = {}
    for name, given, more in (
        ("observation", observations, 1),
        ("action", actions, 0),
        ("context", contexts, 0),
        ("event", events, 0),
    ):
        if given is None:
            continue
        if len(given) != len(lengths):
            raise InputError(f"{len(given)} {name}s for {len(lengths)} episodes: wanted one for each")
        given = [np.asarray(episode) for episode in given]
        width = given[0].shape[1:]
        nothing = -1 if name == "event" else 0
        whole = np.full((len(lengths), lengths.max() + more, *width), nothing, np.result_type(*given))
        for index, episode in enumerate(given):
            wanted = (int(lengths[index]) + more, *width)
            if episode.shape != wanted:
                raise InputError(
                    f"{name} of episode {index} has shape {episode.shape}: wanted {wanted}, "
                    "as its actions and the first episode have"
                )
            whole[index, : len(episode)] = episode
        padded[name] = whole
    ragged = None if (lengths == lengths[0]).all() else lengths
    return Sequences(**padded, length=ragged, **rest)


def check_values(sequences: Sequences) -> None:
    """Raises if a value that is no padding is NaN or infinite, or an event or kind has no name."""
    for name in ("observation", "action", "context"):
        names = getattr(sequences, f"{name}_names")
        for start, values, exists in _chunks(sequences, name):
            if np.isfinite(values).all():
                continue
            sequence, step, dimension = np.nonzero(~np.isfinite(values) & exists[..., None])
            if sequence.size:
                where = f"sequence {start + sequence[0]}, step {step[0]}, {names[dimension[0]]}"
                raise InputError(
                    f"{name} holds NaN or infinite values, the first in {where}: wanted finite numbers; "
                    "repair or drop those sequences, or set length to leave those steps out"
                )
    for name, lowest in (("event", -1), ("kind", 0)):
        given = getattr(sequences, name)
        names = getattr(sequences, f"{name}_names")
        if given is not None and (given.min() < lowest or given.max() >= len(names)):
            raise InputError(
                f"{name} holds {given.min()} to {given.max()}: wanted {lowest} to {len(names) - 1}, a name for each"
            )
    for name, column in sequences.columns.items():
        if not np.isfinite(column).all():
            raise InputError(
                f"column {name!r} holds NaN or infinite values: wanted one finite number for each sequence"
            )


# --- Choosing, dividing, joining -----------------------------------------------------------------------------------


def split(sequences: Sequences, *parts: int | float, seed: int = 42) -> tuple[Sequences, ...]:
    """Divides sequences at random into parts, given as fractions (0.6, 0.2, 0.2) or counts (9600, 3200, 3200).

    Every part has each kind of sequence in the same proportion, as far as numbers allow. What the parts leave over is
    left out; each part keeps the order in which its sequences were given.
    """
    count = len(sequences)
    whole = all(isinstance(part, int | np.integer) for part in parts)
    if not parts or any(part <= 0 for part in parts) or (not whole and sum(parts) > 1 + 1e-9):
        raise InputError(f"parts are {parts}: wanted counts above 0, or fractions above 0 that sum to at most 1")
    ends = np.cumsum(parts) if whole else np.round(np.cumsum(parts) * count).astype(int)
    if ends[-1] > count:
        raise InputError(f"parts {parts} need {ends[-1]} sequences: there are {count}")
    if (np.diff(ends, prepend=0) == 0).any():
        raise InputError(
            f"parts {parts} of {count} sequences leave one part empty: wanted more sequences or fewer parts"
        )
    order = np.random.default_rng(seed).permutation(count)
    kind = np.zeros(count, int) if sequences.kind is None else sequences.kind[order]
    # How far through its kind each sequence comes; sorted by that, any stretch has all kinds in proportion.
    progress = np.empty(count)
    for one in np.unique(kind):
        among = np.flatnonzero(kind == one)
        progress[among] = np.arange(len(among)) / len(among)
    order = order[np.argsort(progress, kind="stable")]
    divided = []
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        note = {"parts": [float(part) for part in parts], "part": number, "seed": seed, "of": count}
        part = sequences[np.sort(order[start:end])]
        divided.append(replace(part, origin={**sequences.origin, "split": note}))
    return tuple(divided)


def select(
    sequences: Sequences,
    *,
    observation: Sequence[str | int] | None = None,
    action: Sequence[str | int] | None = None,
    context: Sequence[str | int] | None = None,
) -> Sequences:
    """The same sequences with fewer or reordered dimensions, by name, number, or name of an entity.

    An entity stays if all its dimensions do.
    """
    changes: dict[str, Any] = {}
    for group, wanted in (("observation", observation), ("action", action), ("context", context)):
        if wanted is None:
            continue
        names, units = getattr(sequences, f"{group}_names"), getattr(sequences, f"{group}_units")
        chosen = _dimensions(sequences, group, [wanted] if isinstance(wanted, str | int) else wanted)
        array = getattr(sequences, group)
        if group == "context" and not chosen:
            changes["context"] = None
        else:
            changes[group] = array[..., chosen]
        changes[f"{group}_names"] = tuple(names[index] for index in chosen)
        changes[f"{group}_units"] = tuple(units[index] for index in chosen)
        if group == "observation":
            changes["entities"] = {
                name: tuple(chosen.index(index) for index in dimensions)
                for name, dimensions in sequences.entities.items()
                if set(dimensions) <= set(chosen)
            }
    return replace(sequences, **changes)


def concatenate(parts: Sequence[Sequences]) -> Sequences:
    """All sequences of the parts, one after the other; shorter ones are padded, kinds and events matched by name."""
    if not parts:
        raise InputError("nothing to concatenate: wanted at least one Sequences")
    first = parts[0]
    for number, part in enumerate(parts):
        for name in (*(f"{group}_{what}" for group in first.sizes for what in ("names", "units")), "entities"):
            if getattr(part, name) != getattr(first, name):
                raise InputError(
                    f"{name} of part {number} are {getattr(part, name)}: wanted {getattr(first, name)}, as part 0 has"
                )
        if part.arrays().keys() | {"length"} != first.arrays().keys() | {"length"}:
            odd = ", ".join(sorted((part.arrays().keys() ^ first.arrays().keys()) - {"length"}))
            raise InputError(
                f"part 0 and part {number} do not both have {odd}: wanted the same in all; drop it or add it"
            )
    time = max(part.time for part in parts)

    def joined(name):
        arrays = [getattr(part, name) for part in parts]
        if arrays[0] is None:
            return None
        if arrays[0].ndim == 1:
            return np.concatenate(arrays)
        rows = time + 1 if name == "observation" else time
        nothing = -1 if name == "event" else 0
        whole = np.full((sum(map(len, arrays)), rows, *arrays[0].shape[2:]), nothing, np.result_type(*arrays))
        for array, end in zip(arrays, np.cumsum([len(array) for array in arrays]), strict=True):
            whole[end - len(array) : end, : array.shape[1]] = array
        return whole

    renamed = {}
    for name in ("event", "kind"):
        names = tuple(dict.fromkeys(one for part in parts for one in getattr(part, f"{name}_names")))
        renamed[f"{name}_names"] = names
        if getattr(first, name) is not None:
            numbered = [[names.index(one) for one in getattr(part, f"{name}_names")] + [-1] for part in parts]
            # The last entry is what -1, an unknown event, becomes: itself.
            parts = [
                replace(part, **{name: np.array(new)[getattr(part, name)], f"{name}_names": names})
                for part, new in zip(parts, numbered, strict=True)
            ]
    origins = [part.origin for part in parts]
    lengths = np.concatenate([part.lengths for part in parts])
    return replace(
        first,
        **{name: joined(name) for name in ("observation", "action", "context", "event", "kind")},
        length=None if (lengths == time).all() else lengths,
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
        origin=first.origin if all(origin == first.origin for origin in origins) else {"concatenated": origins},
        **renamed,
    )


# --- For models ----------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Sequences as models want them: time-major, with padding set to 0."""

    observation: np.ndarray
    """float32 (time, batch, observation)."""
    action: np.ndarray
    """float32 (time, batch, action)."""
    next_observation: np.ndarray
    """float32 (time, batch, observation): row t is what followed action t."""
    context: np.ndarray | None
    """float32 (time, batch, context)."""
    mask: np.ndarray | None
    """bool (time, batch); None where all sequences have full length."""


def batch(sequences: Sequences, index: Index | None = None) -> Batch:
    """Some sequences (all, without an `index`) in the layout that models want."""
    chosen = slice(None) if index is None else _chosen(sequences, index)
    mask = None if sequences.length is None else sequences.mask[chosen].T
    # Two batches of the same data would differ for a model that ignores its mask, were padding left as it is.
    exists = None if mask is None else mask[..., None]

    def time_major(array):
        array = np.ascontiguousarray(np.swapaxes(array, 0, 1))
        return array if exists is None else np.where(exists, array, np.float32(0))

    observation, action, context = sequences.observation[chosen], sequences.action[chosen], sequences.context
    return Batch(
        time_major(observation[:, :-1]),
        time_major(action),
        time_major(observation[:, 1:]),
        None if context is None else time_major(context[chosen]),
        mask,
    )


def batches(
    sequences: Sequences, size: int, *, seed: int | None = None, balanced: bool = False, drop_last: bool = False
) -> Iterator[Batch]:
    """All sequences once, in batches of `size`: in order, or shuffled if there is a seed.

    `balanced`: every batch has as many sequences of each kind, until one kind is used up.
    """
    if size < 1:
        raise InputError(f"size is {size}: wanted 1 or more sequences in a batch")
    order = np.arange(len(sequences)) if seed is None else np.random.default_rng(seed).permutation(len(sequences))
    if balanced:
        if sequences.kind is None:
            raise InputError("these sequences have no kinds: wanted some for balanced batches")
        kinds = np.unique(sequences.kind)
        if size % len(kinds):
            raise InputError(
                f"size is {size}: wanted a multiple of {len(kinds)}, the number of kinds, for balanced batches"
            )
        of_kind = [order[sequences.kind[order] == kind] for kind in kinds]
        fewest = min(map(len, of_kind))
        order = np.stack([one[:fewest] for one in of_kind], axis=1).reshape(-1)
    for start in range(0, len(order), size):
        if start + size <= len(order) or not drop_last:
            yield batch(sequences, order[start : start + size])


@dataclass(frozen=True)
class Scaling:
    """How each dimension is brought to mean 0 and deviation 1; `asdict` and `Scaling(**it)` go to JSON and back."""

    observation_mean: Sequence[float]
    observation_scale: Sequence[float]
    action_mean: Sequence[float]
    action_scale: Sequence[float]
    observation_units: Sequence[str]
    action_units: Sequence[str]

    def __post_init__(self):
        for one in fields(self):  # lists, where it comes from JSON
            object.__setattr__(self, one.name, tuple(getattr(self, one.name)))

    def apply(self, sequences: Sequences) -> Sequences:
        """The sequences standardised; their context stays as it is."""
        self._check(sequences)
        if "standardised" in sequences.origin:
            raise InputError("these sequences are standardised already: undo that first")
        return replace(
            sequences,
            observation=(sequences.observation - np.asarray(self.observation_mean, np.float32))
            / np.asarray(self.observation_scale, np.float32),
            action=(sequences.action - np.asarray(self.action_mean, np.float32))
            / np.asarray(self.action_scale, np.float32),
            observation_units=("sd",) * len(self.observation_mean),
            action_units=("sd",) * len(self.action_mean),
            origin={**sequences.origin, "standardised": asdict(self)},
        )

    def undo(self, sequences: Sequences) -> Sequences:
        """Standardised sequences in their own units again."""
        self._check(sequences)
        return replace(
            sequences,
            observation=sequences.observation * np.asarray(self.observation_scale, np.float32)
            + np.asarray(self.observation_mean, np.float32),
            action=sequences.action * np.asarray(self.action_scale, np.float32)
            + np.asarray(self.action_mean, np.float32),
            observation_units=tuple(self.observation_units),
            action_units=tuple(self.action_units),
            origin={name: value for name, value in sequences.origin.items() if name != "standardised"},
        )

    def _check(self, sequences):
        for group, mean in (("observation", self.observation_mean), ("action", self.action_mean)):
            if sequences.sizes[group] != len(mean):
                raise InputError(
                    f"{group} has {sequences.sizes[group]} dimensions: this scaling was fitted to {len(mean)}"
                )


def standardise(train: Sequences) -> Scaling:
    """The scaling that brings these sequences to mean 0 and deviation 1; constant dimensions are only shifted."""
    found = {}
    for name in ("observation", "action"):
        total = _totals(train, name)
        deviation = np.sqrt(total["variance"])
        # A dimension that never changes but for rounding must not be blown up to deviation 1.
        still = deviation <= 1e-6 * np.maximum(np.abs(total["mean"]), 1e-6)
        found[f"{name}_mean"] = tuple(total["mean"].tolist())
        found[f"{name}_scale"] = tuple(np.where(still, 1.0, deviation).tolist())
    return Scaling(**found, observation_units=train.observation_units, action_units=train.action_units)


# --- What is inside ------------------------------------------------------------------------------------------------


def summarise(sequences: Sequences) -> dict[str, Any]:
    """What is inside, in what JSON can hold: counts, lengths, ranges, events per kind, NaN count and origin."""
    lengths = sequences.lengths
    dimensions: dict[str, dict[str, Any]] = {}
    nan = infinite = 0
    for group in ("observation", "action", "context"):
        if not sequences.sizes[group]:
            continue
        total = _totals(sequences, group)
        nan += int(total["nan"].sum())
        infinite += int(total["infinite"].sum())
        columns = zip(
            getattr(sequences, f"{group}_names"),
            getattr(sequences, f"{group}_units"),
            total["min"].tolist(),
            total["max"].tolist(),
            total["mean"].tolist(),
            np.sqrt(total["variance"]).tolist(),
            strict=True,
        )
        dimensions[group] = {
            name: {"unit": unit, "min": low, "max": high, "mean": mean, "deviation": deviation}
            for name, unit, low, high, mean, deviation in columns
        }
    kinds = None
    if sequences.kind is not None:
        number = np.bincount(sequences.kind, minlength=len(sequences.kind_names))
        kinds = dict(zip(sequences.kind_names, number.tolist(), strict=True))
    return {
        "sequences": len(sequences),
        "steps": int(lengths.sum()),
        "length": {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())},
        "kinds": kinds,
        "events": _events_per_kind(sequences),
        "dimensions": dimensions,
        "entities": {name: list(dimensions) for name, dimensions in sequences.entities.items()},
        "columns": {
            name: {"min": float(array.min()), "max": float(array.max())} for name, array in sequences.columns.items()
        },
        "nan": nan,
        "infinite": infinite,
        "origin": dict(sequences.origin),
    }


def _events_per_kind(sequences: Sequences) -> dict[str, dict[str, int]] | None:
    """For every kind (or "all") how many steps belong to each event; steps without one are counted as "unknown"."""
    if sequences.event is None:
        return None
    names = (*sequences.event_names, "unknown")
    kind = np.zeros(len(sequences), int) if sequences.kind is None else np.asarray(sequences.kind, int)
    kind_names = ("all",) if sequences.kind is None else sequences.kind_names
    steps = np.zeros((len(kind_names), len(names)), int)
    mask = sequences.mask
    for start in range(0, len(sequences), _CHUNK):
        here = slice(start, start + _CHUNK)
        # An unknown event is -1: the last of the names.
        pairs = kind[here, None] * len(names) + sequences.event[here] % len(names)
        steps += np.bincount(pairs[mask[here]], minlength=steps.size).reshape(steps.shape)
    return {
        kind_name: {name: int(number) for name, number in zip(names, row, strict=True) if number}
        for kind_name, row in zip(kind_names, steps, strict=True)
    }


def _totals(sequences: Sequences, group: str) -> dict[str, np.ndarray]:
    """Range, mean and variance of each dimension over the steps that exist and are finite, and how many are not."""
    size = sequences.sizes[group]
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    number, nan, infinite = np.zeros(size), np.zeros(size, int), np.zeros(size, int)
    total, square = np.zeros(size), np.zeros(size)
    shift = None
    for _, values, exists in _chunks(sequences, group):
        rows = values.reshape(-1, size) if exists.all() else values[exists]
        nan += np.isnan(rows).sum(0)
        infinite += np.isinf(rows).sum(0)
        finite = np.isfinite(rows)
        if shift is None:  # a value near the mean: without it small deviations of large values would be lost
            shift = np.where(finite[0], rows[0], 0).astype(float)
        if finite.all():
            away = rows - shift
            number += len(rows)
            low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        else:
            away = np.where(finite, rows, shift) - shift
            number += finite.sum(0)
            low = np.minimum(low, np.where(finite, rows, np.inf).min(0))
            high = np.maximum(high, np.where(finite, rows, -np.inf).max(0))
        total += away.sum(0)
        square += (away * away).sum(0)
    number = np.maximum(number, 1)
    away = total / number
    mean = away if shift is None else away + shift
    return {
        "min": low,
        "max": high,
        "mean": mean,
        "variance": np.maximum(square / number - away**2, 0),
        "nan": nan,
        "infinite": infinite,
    }


def _chunks(sequences: Sequences, group: str) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Observation, action or context piece by piece, with the number of the first sequence and which rows exist."""
    array = getattr(sequences, group)
    if array is None or not array.shape[2]:
        return
    lengths = sequences.lengths + (1 if group == "observation" else 0)
    for start in range(0, len(array), _CHUNK):
        here = slice(start, start + _CHUNK)
        yield start, np.asarray(array[here]), np.arange(array.shape[1]) < lengths[here, None]


# --- Files ---------------------------------------------------------------------------------------------------------


def save(sequences: Sequences, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes sequences to one safetensors file: the same content and origin give the same bytes."""
    check_values(sequences)
    arrays = _ordered(sequences)
    names = {np.dtype(kind): name for name, kind in _DTYPES.items()}
    about = {
        "version": FORMAT_VERSION,
        "kind": "Sequences",
        "counts": {"sequences": len(sequences), "steps": int(sequences.lengths.sum())},
        "about": sequences.about(),
        "tensors": {name: [names[array.dtype], list(array.shape)] for name, array in arrays.items()},
        "data_checksum": checksum(sequences),
    }
    about["checksum"] = _checksum(about)
    header: dict[str, Any] = {"__metadata__": {"saccade": json.dumps(about, sort_keys=True)}}
    end = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Not by the safetensors library: it copies everything, and tells a full disk by an error of its own.
    with replacing(path, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            for piece in _pieces(array):
                file.write(piece)


def load(path: str | os.PathLike) -> Sequences:
    """The sequences that `save` wrote, mapped into memory: nothing is read before it is used.

    That the file is whole and its description unchanged is checked here; `verify` checks every byte.
    """
    about, header, start = _read(path)
    arrays = {}
    for name, tensor in header.items():
        dtype, shape, offset = _DTYPES[tensor["dtype"]], tuple(tensor["shape"]), start + tensor["data_offsets"][0]
        # Nothing cannot be mapped.
        arrays[name] = np.memmap(path, dtype, "r", offset, shape) if 0 not in shape else np.zeros(shape, dtype)
    try:
        return from_parts(arrays, about["about"])
    except (InputError, TypeError, ValueError) as error:
        raise FileError(
            f"{path} holds sequences unlike this version's ({error}): load it with the saccade that saved it"
        ) from error


def verify(path: str | os.PathLike) -> None:
    """Raises unless every byte of a file is as `save` wrote it."""
    about, _, start = _read(path)
    with open(path, "rb") as file:
        file.seek(start)
        if hashlib.file_digest(file, "sha256").hexdigest() != about["data_checksum"]:
            raise _damaged(path)


def checksum(sequences: Sequences) -> str:
    """A text that differs for different numbers: what `verify` checks a file against."""
    digest = hashlib.sha256()
    for array in _ordered(sequences).values():
        for piece in _pieces(array):
            digest.update(piece)
    return digest.hexdigest()


def _ordered(sequences: Sequences) -> dict[str, np.ndarray]:
    """The arrays as they stand in a file: wide types first, so that every one is aligned."""
    return dict(sorted(sequences.arrays().items(), key=lambda item: (-item[1].itemsize, item[0])))


def describe(path: str | os.PathLike) -> dict[str, Any]:
    """What a file of sequences says of itself: counts, names, units, origin; no array is read."""
    return _read(path)[0]


def _read(path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What the file says of itself, where its tensors lie, and where their bytes begin."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:  # checks that offsets, shapes and size agree
            metadata = file.metadata() or {}
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
    except safetensors.SafetensorError as error:
        raise FileError(
            f"{path} is no complete safetensors file ({error}): it may be cut short; copy it again"
        ) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    if "saccade" not in metadata:
        raise FileError(
            f"{path} was not written by saccade: wanted a file of sequences; bring others in by `saccade data convert`"
        )
    try:
        about = json.loads(metadata["saccade"])
        version, kind, checksum = about["version"], about["kind"], about["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if kind != "Sequences":
        raise FileError(f"{path} holds a {kind!r}: wanted sequences")
    if version != FORMAT_VERSION:
        raise FileError(f"{path} has format version {version}: this saccade reads version {FORMAT_VERSION}; update it")
    header.pop("__metadata__")
    found = {name: [tensor["dtype"], tensor["shape"]] for name, tensor in header.items()}
    if checksum != _checksum(about) or about["tensors"] != found:
        raise _damaged(path)
    return about, header, 8 + size


def _damaged(path) -> FileError:
    return FileError(f"{path} was changed or damaged after it was saved: copy it again from where it came")


def _checksum(about: Mapping[str, Any]) -> str:
    text = json.dumps({name: value for name, value in about.items() if name != "checksum"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _pieces(array: np.ndarray) -> Iterator[bytes]:
    return (array[start : start + _CHUNK].tobytes() for start in range(0, len(array), _CHUNK))


# --- Checks --------------------------------------------------------------------------------------------------------


def _floats(name: str, given: Any, wanted: str) -> np.ndarray:
    array = np.asanyarray(given)
    if array.ndim != 3:
        raise InputError(f"{name} has shape {array.shape}: wanted 3 axes, {wanted}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {array.dtype}: wanted numbers; convert it first")
    if array.dtype == np.float32:
        return array
    with np.errstate(over="ignore"):  # too large a number becomes infinite and is reported as such
        return np.asarray(array).astype(np.float32)


def _integers(name: str, given: Any, shape: tuple[int, ...], narrow: type[np.integer]) -> np.ndarray:
    array = np.asanyarray(given)
    _shaped(name, array, shape)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} holds {array.dtype}: wanted whole numbers")
    if array.dtype == narrow or (name == "event" and array.dtype == np.int8):
        return array
    bounds = np.iinfo(narrow)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise InputError(
            f"{name} holds {array.min()} to {array.max()}: wanted numbers from {bounds.min} to {bounds.max}"
        )
    return np.asarray(array).astype(narrow)


def _column(name: str, given: Any, count: int) -> np.ndarray:
    array = np.asanyarray(given)
    _shaped(f"column {name!r}", array, (count,))
    if array.dtype.kind not in "fiub":
        raise InputError(f"column {name!r} holds {array.dtype}: wanted numbers")
    return array if array.dtype == np.float64 else np.asarray(array).astype(np.float64)


def _shaped(name: str, array: np.ndarray, wanted: tuple[int, ...]) -> None:
    if array.shape != wanted:
        raise InputError(f"{name} has shape {array.shape}: wanted {wanted}, as observation and action have")


def _texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(given)
    if isinstance(given, str) or not all(isinstance(text, str) for text in texts) or len(set(texts)) < len(texts):
        raise InputError(f"{name} are {given!r}: wanted texts, all different")
    return texts


def _plain(origin: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(origin), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"origin cannot be written as JSON ({error}): wanted texts, finite numbers, lists and dicts"
        ) from error


def _chosen(sequences: Sequences, index: Index) -> slice | np.ndarray:
    """An index of sequences as a slice or an array of numbers, checked."""
    count = len(sequences)
    if isinstance(index, str):
        if sequences.kind is None or index not in sequences.kind_names:
            raise InputError(f"kind {index!r} is unknown: choose one of {', '.join(sequences.kind_names) or 'none'}")
        index = sequences.kind == sequences.kind_names.index(index)
    if isinstance(index, slice):
        chosen, size = index, len(range(count)[index])
    else:
        chosen = np.atleast_1d(np.asarray(index))
        if chosen.dtype == bool:
            if chosen.shape != (count,):
                raise InputError(f"a choice of {chosen.shape} booleans: wanted one for each of {count} sequences")
            chosen = np.flatnonzero(chosen)
        size = chosen.size
        if size and (chosen.ndim != 1 or chosen.dtype.kind not in "iu"):
            raise InputError(
                f"a choice of {chosen.dtype} of shape {chosen.shape}: wanted numbers of sequences, a slice or booleans"
            )
        if size and (chosen.min() < -count or chosen.max() >= count):
            raise InputError(
                f"sequence {chosen.max() if chosen.max() >= count else chosen.min()} is wanted: there are {count}"
            )
    if size == 0:
        raise InputError(f"nothing is chosen out of {count} sequences: wanted at least one")
    return chosen


def _dimensions(sequences: Sequences, group: str, wanted: Sequence[str | int]) -> list[int]:
    """Dimensions of a group by name, number or entity, as numbers."""
    names = getattr(sequences, f"{group}_names")
    found: list[int] = []
    for one in wanted:
        if isinstance(one, int | np.integer) and 0 <= one < len(names):
            found.append(int(one))
        elif isinstance(one, str) and one in names:
            found.append(names.index(one))
        elif group == "observation" and isinstance(one, str) and one in sequences.entities:
            found.extend(sequences.entities[one])
        else:
            known = (*names, *(sequences.entities if group == "observation" else ()))
            raise InputError(
                f"{group} has no dimension {one!r}: choose from {', '.join(known)} or 0 to {len(names) - 1}"
            )
    if len(set(found)) < len(found):
        raise InputError(f"{group} dimensions {list(wanted)} name one twice: wanted each once")
    return found
