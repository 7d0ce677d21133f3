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
    table = Table("event's steps", "the script's phases in it", "strength", "hand foreseen at its end, off by")
    table.title = f"{one['kind']}: what the gates made of it, without having seen the phases"
    steps = len(one["phase"])
    starts = [0, *(step for step in range(1, steps) if one["boundary"][step])]
    for start, end in zip(starts, [*starts[1:], steps], strict=True):
        phases = ", ".join(dict.fromkeys(one["phase"][start:end]))
        hand = one["entities"]["hand"]
        last = min(end, steps - 1)  # the sequence's last step is what skip predictions look ahead to at most
        off = ""
        if start < last:
            there = np.array(one["observation"][last])[hand]
            off = f"{100 * np.linalg.norm(np.array(one['skip_mean'][start])[hand] - there):.1f} cm"
        strength = f"{one['strength'][start]:.2f}" if start else ""
        table.add_row(f"{start + 1}–{end}", phases, strength, off)
    return table
