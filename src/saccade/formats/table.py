"""Tables with one row per step, as CSV or Parquet.

Columns: `sequence` and `step`; `observation.<name>`, `action.<name>` and `context.<name>`; and, where there are any,
`event`, `kind` and `column.<name>`. The last row of a sequence shows what followed its last action; it has none itself.
"""

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saccade.checks import FileError, InputError
from saccade.files import replacing
from saccade.formats._common import optional, origin, reading
from saccade.sequences import Sequences, check_values, from_parts

_CHUNK = 1000
_WANTED = "a table with one row per step and columns sequence, step, observation.<name>, action.<name>"
_GROUPS = ("observation", "action", "context")
_Names = Sequence[str] | None


def read_csv(
    path: str | os.PathLike, *, observation: _Names = None, action: _Names = None, context: _Names = None
) -> Sequences:
    """Sequences from a CSV file; columns that are not named as we do it are given by their names.

    Where the last row of each sequence has an action too, that action is dropped, as nothing shows what followed it.
    """
    path = Path(path)
    with reading(path, _WANTED):
        given = {"observation": observation, "action": action, "context": context}
        return _from_columns(path, "csv", _csv_columns(path), None, given)


def read_parquet(
    path: str | os.PathLike, *, observation: _Names = None, action: _Names = None, context: _Names = None
) -> Sequences:
    """Sequences from a Parquet file, in the same way as `read_csv`."""
    path = Path(path)
    with reading(path, _WANTED):
        given = {"observation": observation, "action": action, "context": context}
        return _from_columns(path, "parquet", *_parquet_columns(path), given)


def write_csv(sequences: Sequences, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes a CSV file; units, entities and origin are lost."""
    check_values(sequences)
    with replacing(path, overwrite=overwrite) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        for start in range(0, len(sequences), _CHUNK):
            columns = _to_columns(sequences[start : start + _CHUNK])
            columns["sequence"] += start
            if start == 0:
                out.writerow(columns)
            out.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))


def write_parquet(sequences: Sequences, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes a Parquet file with everything in it."""
    check_values(sequences)
    pa, pq = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    columns = _to_columns(sequences)
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}  # NaN and None: no value
    table = pa.table(arrays).replace_schema_metadata({"saccade": json.dumps(sequences.about(), sort_keys=True)})
    with replacing(path, overwrite=overwrite) as temporary:
        pq.write_table(table, temporary)


def _cells(values: np.ndarray) -> list[str]:
    if values.dtype.kind == "O":
        return ["" if value is None else value for value in values]
    texts = values.astype(str)  # as short as it can be and still give the same number back
    return (np.where(np.isnan(values), "", texts) if values.dtype.kind == "f" else texts).tolist()


def _to_columns(sequences: Sequences) -> dict[str, np.ndarray]:
    """One array per column; what has no value is NaN or None."""
    exists = np.arange(sequences.time + 1) <= sequences.lengths[:, None]
    sequence, step = np.nonzero(exists)

    def per_step(array, nothing):
        """Values of the steps, and `nothing` in the last row of each sequence."""
        rows = np.full(exists.shape, nothing, array.dtype)
        rows[:, :-1][sequences.mask] = array[sequences.mask]
        return rows[exists]

    columns: dict[str, np.ndarray] = {"sequence": sequence, "step": step}
    if sequences.kind is not None:
        columns["kind"] = np.array(sequences.kind_names, object)[sequences.kind][sequence]
    for name, array in sequences.columns.items():
        columns[f"column.{name}"] = array[sequence]
    if sequences.event is not None:
        columns["event"] = np.array([*sequences.event_names, None], object)[per_step(sequences.event, -1)]
    for name, array in zip(sequences.observation_names, np.moveaxis(sequences.observation, 2, 0), strict=True):
        columns[f"observation.{name}"] = array[exists]
    for group in ("action", "context"):
        array = getattr(sequences, group)
        if array is not None:
            for name, values in zip(getattr(sequences, f"{group}_names"), np.moveaxis(array, 2, 0), strict=True):
                columns[f"{group}.{name}"] = per_step(values, np.nan)
    return columns


# --- Reading -------------------------------------------------------------------------------------------------------


def _csv_columns(path: Path) -> dict[str, np.ndarray]:
    """Columns as texts."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, strict=True)
        header = next(rows, [])
        content = []
        for row in rows:
            if len(row) != len(header):
                raise FileError(
                    f"{path} has {len(row)} cells in line {rows.line_num}: wanted {len(header)}, as the header has; "
                    "it may be cut short"
                )
            content.append(row)
    if len(set(header)) < len(header):
        raise FileError(f"{path} has two columns of the same name: wanted {_WANTED}")
    columns = zip(*content, strict=True) if content else [[]] * len(header)
    return {name: np.array(cells, object) for name, cells in zip(header, columns, strict=True)}


def _parquet_columns(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    pa, pq = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    with path.open("rb") as file:
        # Without threads: one that still holds Python's file when Python ends would take the process down.
        table = pq.read_table(file, use_threads=False, pre_buffer=False)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        values = column.to_numpy() if is_number else column.to_pylist()
        columns[name] = (
            values if is_number else np.array(["" if value is None else str(value) for value in values], object)
        )
    about = (table.schema.metadata or {}).get(b"saccade")
    return columns, None if about is None else json.loads(about)


def _from_columns(path: Path, form: str, columns: dict[str, np.ndarray], about: dict | None, given: dict) -> Sequences:
    for name in ("sequence", "step"):
        if name not in columns:
            raise FileError(f"{path} has no column {name!r} but {', '.join(columns) or 'none'}: wanted {_WANTED}")
    if not len(columns["sequence"]):
        raise FileError(f"{path} has no rows: wanted {_WANTED}")
    named = {}
    for group in _GROUPS:
        prefixed = [name for name in columns if name.startswith(f"{group}.")]
        named[group] = prefixed if given[group] is None else list(given[group])
        if missing := [name for name in named[group] if name not in columns]:
            raise FileError(f"{path} has no column {missing[0]!r}: wanted one of {', '.join(columns)}")
    if not named["observation"]:
        raise FileError(
            f"{path} has columns {', '.join(columns)}: wanted some named observation.<name>, "
            "or to be told their names by observation=[...]"
        )
    ids = columns["sequence"]
    ids = ids.astype(str) if ids.dtype == object else ids
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    sequence = np.argsort(np.argsort(first))[number]  # in the order in which they come in the file
    step = _numbers(path, "step", columns["step"])
    order = np.lexsort((step, sequence))
    sequence, step = sequence[order], step[order]
    begins = np.diff(sequence, prepend=-1) != 0
    gap = ~begins & (np.diff(step, prepend=0) != 1)
    if gap.any():
        at = int(gap.argmax())
        raise FileError(
            f"{path}: in sequence {ids[order[at]]} step {step[at]:g} follows {step[at - 1]:g}: wanted every step once"
        )
    starts = np.flatnonzero(begins)
    rows = np.diff(starts, append=len(sequence))  # of each sequence
    if (rows < 3).any():
        raise FileError(
            f"{path}: sequence {ids[order[starts[rows.argmin()]]]} has {rows.min()} rows: wanted at least 3, "
            "those of 2 actions and what followed the last"
        )
    place = (sequence, np.arange(len(sequence)) - starts[sequence])
    ends = starts + rows - 1

    count, time = len(starts), int(rows.max()) - 1
    arrays: dict[str, np.ndarray] = {"observation": np.zeros((count, time + 1, len(named["observation"])), np.float64)}
    for index, name in enumerate(named["observation"]):
        arrays["observation"][..., index][place] = _numbers(path, name, columns[name])[order]
    acted = {name: _numbers(path, name, columns[name])[order] for name in named["action"]}
    if acted:
        has_action = ~np.isnan(np.stack([values[ends] for values in acted.values()])).all(0)
        if has_action.any() and not has_action.all():
            at = ends[int(has_action.argmax())]
            raise FileError(
                f"{path}: sequence {ids[order[at]]} ends with an action in step {step[at]:g} "
                "where others end with what followed it: it may be cut short; complete it or take it out"
            )
    arrays["length"] = (rows - 1).astype(np.int32)
    # The last row of a sequence has a place only among observations.
    inside = place[1] < (rows - 1)[sequence]
    steps = (place[0][inside], place[1][inside])
    arrays["action"] = np.zeros((count, time, len(acted)))
    for index, values in enumerate(acted.values()):
        arrays["action"][..., index][steps] = values[inside]
    if named["context"]:
        arrays["context"] = np.zeros((count, time, len(named["context"])))
        for index, name in enumerate(named["context"]):
            arrays["context"][..., index][steps] = _numbers(path, name, columns[name])[order][inside]
    if (rows == rows[0]).all():
        del arrays["length"]

    found: dict[str, Any] = {
        f"{group}_names": tuple(name.removeprefix(f"{group}.") for name in named[group]) for group in _GROUPS
    }
    if "event" in columns:
        events = np.full((count, time), -1)
        events[steps], found["event_names"] = _named(columns["event"][order][inside], (about or {}).get("event_names"))
        arrays["event"] = events
    if "kind" in columns:
        kinds, found["kind_names"] = _named(columns["kind"][order], (about or {}).get("kind_names"))
        arrays["kind"] = _constant(path, "kind", kinds, starts, rows)
    for name in (name for name in columns if name.startswith("column.")):
        arrays[name] = _constant(path, name, _numbers(path, name, columns[name])[order], starts, rows)
    if about is None or any(names is not None for names in given.values()):
        return from_parts(arrays, {**found, "origin": origin(path, form)})
    return from_parts(arrays, {**about, **found})


def _numbers(path: Path, name: str, cells: np.ndarray) -> np.ndarray:
    """A column as numbers; empty cells become NaN."""
    if cells.dtype != object:
        return cells.astype(float)
    try:
        return np.where(cells == "", "nan", cells).astype(float)
    except ValueError as error:
        raise FileError(
            f"{path}: column {name!r} has a cell that is no number ({error}): wanted numbers or empty cells"
        ) from error


def _named(cells: np.ndarray, known: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Names as numbers, in the order in which they are `known` or else come first; nothing is -1."""
    # Numbers with gaps arrive as floats, whose gaps are NaN.
    texts = [f"{cell:g}".replace("nan", "") if isinstance(cell, float) else str(cell) for cell in cells.tolist()]
    names = tuple(dict.fromkeys([*(known or ()), *(text for text in texts if text)]))
    index = {"": -1, **{name: number for number, name in enumerate(names)}}
    return np.array([index[text] for text in texts]), names


def _constant(path: Path, name: str, values: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The one value that each sequence has in all its rows."""
    if (values != np.repeat(values[starts], rows)).any():
        raise FileError(
            f"{path}: column {name!r} changes, or is empty, within a sequence: wanted one value in all its rows"
        )
    if name == "kind" and (values < 0).any():
        raise InputError("column 'kind' is empty in some sequences: wanted a name in all or none")
    return values[starts]
