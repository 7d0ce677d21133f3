"""The whole way in small: data, training, claims and a page, in some five minutes; and its events in words."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.table import Table

from saccade.studies.reproduce import Reproduced, reproduce
from saccade.studies.study import read_json


def run(out: str | os.PathLike, tell: Callable[[str, int, int], None] | None = None) -> Reproduced:
    """Both studies at the scale `demo`; called again it goes on where it was."""
    return reproduce("all", "demo", "fast", out=out, tell=tell)


def tables(folder: str | os.PathLike) -> list[Table]:
    """What the first model made of the first test sequence of each kind: its events beside the script's phases."""
    first = {}
    for one in read_json(Path(folder) / "tables" / "examples.json"):
        first.setdefault(one["kind"], one)
    return [_events(one) for one in first.values()]


def _events(one: dict) -> Table:
    table = Table("steps", "the script's phases in them", "strength", "hand foreseen for the next opening, off by")
    table.title = f"{one['kind']}: the gates' events, found without having been told the phases"
    steps, hand, observed = len(one["phase"]), one["entities"]["hand"], np.array(one["observation"])
    starts = [0, *(step for step in range(1, steps) if one["boundary"][step])]
    for start, end in zip(starts, [*starts[1:], steps], strict=True):
        phases = ", ".join(dict.fromkeys(one["phase"][start:end]))
        strength = f"{one['strength'][start]:.2f}" if start else ""
        # The sequence's last step counts as an opening for the skip network, and nothing is foreseen from there on.
        later = [step for step in range(start + 1, steps) if one["opening"][step] or step == steps - 1]
        off = ""
        if later:
            foreseen = np.array(one["skip_mean"][start])[hand]
            off = f"{100 * np.linalg.norm(foreseen - observed[later[0], hand]):.1f} cm"
        table.add_row(f"{start + 1}–{end}", phases, strength, off)
    return table
