"""The authors' APEX set: a Python pickle of rollouts, read without ever running it.

A pickle is a program that calls whatever it names. Here its instructions are only looked at: each call becomes an
inert record of what was to be called with what, and numbers are then taken from the records of NumPy arrays. Nothing
that a file names is ever imported, built or called; one that names anything else is refused.
"""

import math
import os
import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saccade.checks import InputError
from saccade.formats._common import origin, reading
from saccade.formats.original import FETCH, pick
from saccade.sequences import Sequences, concatenate


def read(path: str | os.PathLike, *, length: int = 25) -> Sequences:
    """The rollouts of a file, cut to `length` actions."""
    path = Path(path)
    wanted = "the authors' pickle of rollouts with observations, next_observations, actions and env_states"
    with reading(path, wanted):
        content = path.read_bytes()
        rollouts = list(_rollouts(_look_at(content), largest=len(content)))
        if not rollouts:
            raise InputError(f"there are no rollouts in it: wanted {wanted}")
        about = {**FETCH, "origin": origin(path, "apex", length=length)}
        # Rollouts of one length are picked at once; there are many.
        lengths = np.array([min(len(rollout), length) for rollout in rollouts])
        groups = [np.flatnonzero(lengths == one) for one in np.unique(lengths)]
        parts = [_sequences([rollouts[index] for index in group], int(lengths[group[0]]), about) for group in groups]
        return concatenate(parts)[np.argsort(np.concatenate(groups))]


def _sequences(rollouts: list[np.ndarray], length: int, about: dict[str, Any]) -> Sequences:
    fields = {}
    for name in ("observations", "next_observations", "actions", "env_states"):
        for number, rollout in enumerate(rollouts):
            if name not in (rollout.dtype.names or ()):
                raise InputError(
                    f"rollout {number} has no {name} but {', '.join(rollout.dtype.names or ('no fields',))}"
                )
        shapes = {rollout[name].shape[1:] for rollout in rollouts}
        if len(shapes) > 1 or len(min(shapes)) != 1:
            raise InputError(
                f"{name} have shapes {sorted(shapes)} at each step: wanted one number of dimensions in all rollouts"
            )
        fields[name] = np.stack([rollout[name][:length] for rollout in rollouts])
    # The goal is no part of the observation here; it is the end of the simulator's state.
    goal = fields["env_states"][..., -3:]
    observation = np.concatenate([fields["observations"], goal], axis=2)
    following = np.concatenate([fields["next_observations"], goal], axis=2)
    return Sequences(*pick(observation, following, fields["actions"], length=length), **about)


# --- Looking at a pickle -------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Record:
    """Something that a pickle names, what it would call it with, and the state it would give the result."""

    name: str
    arguments: Any = None
    state: Any = None


_ARRAY = {f"{core}.multiarray._reconstruct" for core in ("numpy.core", "numpy._core")}
_BUFFER = {f"{core}.numeric._frombuffer" for core in ("numpy.core", "numpy._core")}
_SCALAR = {f"{core}.multiarray.scalar" for core in ("numpy.core", "numpy._core")}
_OBJECT = {"copyreg._reconstructor", "copy_reg._reconstructor", "builtins.object", "__builtin__.object"}
_NAMES = _ARRAY | _BUFFER | _SCALAR | _OBJECT | {"numpy.ndarray", "numpy.dtype", "_codecs.encode"}
_ROLLOUTS = re.compile(r"(\w+\.)*rolloutbuffer\.(RolloutBuffer|_CustomList|Rollout)", re.ASCII)

_VALUES = {
    *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _look_at(content: bytes) -> Any:
    """What a pickle describes: plain values, lists, tuples and dicts as they are, everything else as records."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def cut(start):
        taken = stack[start:]
        del stack[start:]
        return taken

    def put_in(items, pairs):
        keys = pairs[::2]
        # Anything else could be nested deeply enough to break the interpreter when it is hashed.
        if not all(isinstance(key, str | int) for key in keys):
            raise InputError("it has a dictionary whose keys are neither texts nor numbers: refused")
        dict.update(items, zip(keys, pairs[1::2], strict=True))

    instructions: Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]] = pickletools.genops(content)
    for opcode, argument, _ in instructions:
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            marks.append(len(stack))
        elif name in _TUPLES:
            stack.append(tuple(cut(len(stack) - _TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(cut(marks.pop())))
        elif name == "LIST":
            stack.append(cut(marks.pop()))
        elif name == "DICT":
            pairs = cut(marks.pop())
            stack.append({})
            put_in(stack[-1], pairs)
        elif name == "APPEND":
            list.extend(stack[-2], cut(len(stack) - 1))
        elif name == "APPENDS":
            items = cut(marks.pop())
            list.extend(stack[-1], items)
        elif name == "SETITEM":
            put_in(stack[-3], cut(len(stack) - 2))
        elif name == "SETITEMS":
            pairs = cut(marks.pop())
            put_in(stack[-1], pairs)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, called = argument.split(" ", 1) if name == "GLOBAL" else cut(len(stack) - 2)
            if not isinstance(module, str) or not isinstance(called, str):
                raise InputError("it names something by what is no text: refused")
            full = f"{module}.{called}"
            if full not in _NAMES and not _ROLLOUTS.fullmatch(full):
                raise InputError(
                    f"it names {full!r}, which no file of rollouts has to: refused, and nothing of it was run; "
                    "do not open it by other means unless you trust where it came from"
                )
            stack.append(_Record(full))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = cut(len(stack) - 2)
            stack.append(_Record(called.name, arguments))
        elif name == "BUILD":
            (state,) = cut(len(stack) - 1)
            stack[-1].state = state
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            cut(marks.pop())
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise InputError(f"it uses the pickle instruction {name}, which no file of rollouts has to: refused")
    raise InputError("it has no end")


def _rollouts(found: Any, *, largest: int) -> Iterator[np.ndarray]:
    """The arrays of all rollouts; together they must not be larger than the file that they come from."""
    for attribute in ("rollouts", "_list"):  # a buffer holds a list of its own kind, which holds a plain list
        if isinstance(found, _Record) and isinstance(found.state, dict):
            found = found.state.get(attribute, found)
    if not isinstance(found, list | tuple):
        raise InputError(f"it holds {_named(found)}: wanted a buffer or list of rollouts")
    for rollout in found:
        if isinstance(rollout, _Record) and isinstance(rollout.state, dict):
            rollout = rollout.state.get("_data")
        array = _array(rollout)
        largest -= array.nbytes
        if largest < 0:
            raise InputError("it repeats the same numbers over and over, to more than its own size: refused")
        yield array


def _array(record: Any) -> np.ndarray:
    """The array that a record describes, made from its bytes and a plain description of its type."""
    if isinstance(record, _Record) and record.name in _BUFFER:
        content, dtype, shape, order = record.arguments
    elif isinstance(record, _Record) and record.name in _ARRAY and isinstance(record.state, tuple):
        shape, dtype, is_fortran, content = record.state[-4:]
        order = "F" if is_fortran else "C"
    else:
        raise InputError(f"a rollout is {_named(record)}: wanted a NumPy array with fields")
    if isinstance(content, _Record) and content.name == "_codecs.encode":  # how old protocols write bytes
        content = content.arguments[0].encode("latin1")
    dtype = _structure(dtype)
    if (
        not isinstance(content, bytes | bytearray)
        or math.prod(shape) * dtype.itemsize != len(content)
        or not len(content)
    ):
        raise InputError(
            f"an array of shape {shape} has {_named(content)}: wanted its {dtype.itemsize} bytes for each entry"
        )
    return np.frombuffer(content, dtype).reshape(shape, order=order)


def _structure(record: Any) -> np.dtype:
    """The type of an array with fields, each of numbers or fixed-size arrays of numbers."""
    _, _, subarray, names, parts, itemsize = _state_of_dtype(record)
    if names is None or subarray is not None:
        return _numbers(record)
    formats, offsets = [], []
    for name in names:
        part, offset = parts[name][:2]
        inner = _state_of_dtype(part)[2]
        formats.append(_numbers(part) if inner is None else (_numbers(inner[0]), inner[1]))
        offsets.append(offset)
    # NumPy checks here that no field lies outside an entry.
    return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": itemsize})


def _numbers(record: Any) -> np.dtype:
    code = record.arguments[0]
    if not re.fullmatch(r"[fiu][1248]|b1", code):
        raise InputError(f"it has an array of type {code!r}: refused; wanted numbers only")
    order = _state_of_dtype(record)[1]
    return np.dtype(code).newbyteorder("=" if order == "|" else order)


def _state_of_dtype(record: Any) -> tuple[Any, ...]:
    if not isinstance(record, _Record) or record.name != "numpy.dtype" or not isinstance(record.state, tuple):
        raise InputError(f"the type of an array is {_named(record)}: wanted one of NumPy's")
    return record.state[:6]


def _named(found: Any) -> str:
    return found.name if isinstance(found, _Record) else f"a {type(found).__name__}"
