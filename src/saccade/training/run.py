"""A run: a folder in which a population is trained, group by group, and which can be gone on with at any time.

`run.json` says what is trained on which data. Each `group-1`, `group-2`, ... holds the newest checkpoints and
`metrics.csv`, a row for each model and evaluation. `models/LABEL/000000500.safetensors` are milestones: a model as it
was after so many updates.
"""

import csv
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saccade import formats, machine, saving, sequences
from saccade.checks import FileError, InputError, SaccadeError
from saccade.files import only_one, provenance, replacing
from saccade.sequences import Sequences
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint
from saccade.training.population import Group
from saccade.training.recipe import Member, check_distinct, read_member

HELD_OUT = 0.2  # of data that comes without a validation set


@dataclass(frozen=True)
class Progress:
    """Where a group stands."""

    group: str
    update: int
    updates: int
    measures: dict[str, float]
    """Means over the group's models, of the newest updates and the newest evaluation."""


Tell = Callable[[Progress], None]
Engine = Callable[[Path, Sequence[int], Tell | None], bool]


# --- The whole run -------------------------------------------------------------------------------------------------


def train(
    folder: str | os.PathLike,
    members: Sequence[Member],
    data: str | os.PathLike,
    *,
    per_group: int | None = None,
    engine: Engine | None = None,
    tell: Tell | None = None,
) -> bool:
    """Trains models in a folder, or goes on with it; whether all are finished, or else it was interrupted.

    `data` is a folder with `train.safetensors` and `validation.safetensors`, or one file of any format, a fifth of
    which is then held out. Models of the same shapes are trained as one group, or as several of at most `per_group`.
    """
    folder = Path(folder)
    check_distinct(members)
    whole = load_data(data)
    wanted = {
        "data": str(Path(data).resolve()),
        "data_checksum": _checksum(whole),
        "groups": [[one.about() for one in group] for group in _grouped(members, per_group)],
    }
    path = folder / "run.json"
    if path.exists():
        found = about(folder)
        # Through this version's settings, so that runs begun before a setting was there are still the same.
        found["groups"] = [[read_member(one).about() for one in group] for group in found["groups"]]
        found = json.loads(json.dumps(found))
        for name, title in (("data_checksum", "other data"), ("groups", "other models or recipes")):
            if found[name] != json.loads(json.dumps(wanted[name])):
                raise FileError(
                    f"{folder} is a run with {title}{_difference(found[name], wanted[name])}: choose another folder, "
                    f"or go on with it as it was by --resume {folder}"
                )
    else:
        with only_one(folder, "training"), replacing(path) as temporary:
            temporary.write_text(
                json.dumps({**wanted, "made_by": {**provenance(), "device": machine.devices()}}, indent=1)
            )
    return resume(folder, engine=engine, tell=tell)


def resume(
    folder: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    engine: Engine | None = None,
    tell: Tell | None = None,
) -> bool:
    """Goes on with a run as it was begun; whether all models are finished, or else it was interrupted.

    `data` says where the data is now, if it was moved.
    """
    folder = Path(folder)
    known = about(folder)
    if data is not None and str(Path(data).resolve()) != known["data"]:
        if _checksum(load_data(data)) != known["data_checksum"]:
            raise FileError(f"{data} holds other sequences than {folder} was begun with: wanted the same; see run.json")
        with replacing(folder / "run.json", overwrite=True) as temporary:
            temporary.write_text(json.dumps({**known, "data": str(Path(data).resolve())}, indent=1))
    updates = [read_member(group[0]).recipe.updates for group in known["groups"]]
    todo = [number for number, wanted in enumerate(updates) if updates_done(folder, number) != wanted]
    return (engine or here)(folder, todo, tell)


def here(folder: Path, groups: Sequence[int], tell: Tell | None = None) -> bool:
    """Trains a run's groups on this machine, one after the other: the engine that is used if no other is given."""
    with interruptible() as interrupted:
        return all(train_group(folder, number, tell=tell, interrupted=interrupted) for number in groups)


def about(folder: str | os.PathLike) -> dict[str, Any]:
    """What `run.json` says of a run."""
    path = Path(folder) / "run.json"
    try:
        known = json.loads(path.read_text())
        _ = known["data"], known["data_checksum"], [read_member(one) for group in known["groups"] for one in group]
    except FileNotFoundError as error:
        raise FileError(f"{folder} is no run: there is no run.json in it; `saccade runs list` shows runs") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} does not describe a run ({error}): put it back, or begin another run") from error
    return known


def load_data(path: str | os.PathLike) -> tuple[Sequences, Sequences]:
    """Training and validation sequences."""
    path = Path(path)
    if (path / "train.safetensors").exists() and (path / "validation.safetensors").exists():
        return sequences.load(path / "train.safetensors"), sequences.load(path / "validation.safetensors")
    if not path.exists():
        raise FileError(f"{path} does not exist: make sequences with `saccade data scripted {path}`, or name others")
    return sequences.split(formats.read(path), 1 - HELD_OUT, HELD_OUT)  # type: ignore[return-value]


# --- One group -----------------------------------------------------------------------------------------------------


def train_group(
    folder: Path,
    number: int,
    *,
    tell: Tell | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    save_every: float = 30.0,
) -> bool:
    """Trains one group of a run to its end, from its newest checkpoint on; whether it got there.

    It is asked after every chunk of updates whether it was interrupted, and checkpoints are written every
    `save_every` seconds and at evaluations. Where they fall changes no number.
    """
    known = about(folder)
    members = [read_member(one) for one in known["groups"][number]]
    data = load_data(known["data"])
    if _checksum(data) != known["data_checksum"]:
        raise FileError(f"{known['data']} has changed since {folder} was begun: put it back, or begin another run")
    place = group_folder(folder, number)
    recipe = members[0].recipe
    with only_one(place, "training"):
        for written in (place, *(milestone(folder, one.label, 0).parent for one in members)):
            for left_over in written.glob(".*.tmp"):  # of a run killed while writing
                left_over.unlink()
        group = Group(members, *data)
        found = checkpoint.newest(place, group.skeleton())
        if found is None:
            done, trainings, rows = 0, group.start(), []
            _evaluate(folder, group, trainings, 0, {}, rows)
            _save(place, group, trainings, 0, rows)
        else:
            done, trainings, rows = found.update, group.unstack(found.state), found.rows
        saved, last = done, time.monotonic()
        while done < recipe.updates:
            count = min(group.chunk, recipe.updates - done, recipe.evaluate_every - done % recipe.evaluate_every)
            trainings, met = group.advance(trainings, done, count)
            _check_finite(place, members, met, done, done + count, saved)
            done += count
            evaluating = done % recipe.evaluate_every == 0 or done == recipe.updates
            if evaluating:
                _evaluate(folder, group, trainings, done, met, rows)
            stopping = interrupted()
            if evaluating or stopping or time.monotonic() - last > save_every:
                _save(place, group, trainings, done, rows)
                saved, last = done, time.monotonic()
            if tell:
                newest = {name: float(np.mean(values)) for name, values in met.items()}
                tell(Progress(f"group {number + 1}: {_title(members)}", done, recipe.updates, newest))
            if stopping and done < recipe.updates:
                return False
        return True


def _evaluate(folder: Path, group: Group, trainings, update: int, met, rows: list[dict[str, Any]]) -> None:
    """Judges all models, keeps them as milestones, and adds a row for each to `rows`."""
    judged = group.judge(trainings)
    training = {name: met.get(name) for name in ("loss", "skip_loss", "gradient_norm")}
    for index, (one, model) in enumerate(zip(group.members, group.models(trainings), strict=True)):
        numbers = {**training, **dict.fromkeys(("skip_nll", "skip_mse")), **judged}
        row = {
            "label": one.label,
            "recipe": one.recipe.name,
            "memory": one.settings.memory,
            "sparsity": one.sparsity,
            "seed": one.seed,
            "update": update,
            **{name: None if values is None else float(values[index]) for name, values in numbers.items()},
        }
        rows.append(row)
        path = milestone(folder, one.label, update)
        path.parent.mkdir(parents=True, exist_ok=True)
        saving.save(model, path, overwrite=True, member=one.about(), update=update, measures=row)


def milestone(folder: str | os.PathLike, label: str, update: int) -> Path:
    """Where a model is kept as it was after so many updates."""
    return Path(folder) / "models" / label / f"{update:09d}.safetensors"


def _check_finite(place: Path, members, met, first: int, last: int, saved: int) -> None:
    for index, one in enumerate(members):
        for name in ("loss", "skip_loss", "gradient_norm"):
            if not np.isfinite(met[name][index]):
                raise SaccadeError(
                    f"{name.replace('_', ' ')} of {one.label} became {met[name][index]} between updates {first} and "
                    f"{last}: {place} keeps all models as of update {saved}; look for extreme values in the data "
                    "(`saccade data info`), or begin a run with a smaller learning_rate or clip"
                )


def _save(place: Path, group: Group, trainings, update: int, rows: list[dict[str, Any]]) -> None:
    """Writes the metrics, then the checkpoint: once this is there, so is everything else."""
    with replacing(place / "metrics.csv", overwrite=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    checkpoint.save(place, Checkpoint(update, group.stack(trainings), rows))


def group_folder(folder: Path, number: int) -> Path:
    """Where a group's checkpoints and metrics are."""
    return folder / f"group-{number + 1}"


def updates_done(folder: Path, number: int) -> int | None:
    """How many updates of a group are done; None if it was not begun."""
    return checkpoint.newest_update(group_folder(folder, number))


def _grouped(members: Sequence[Member], per_group: int | None) -> Iterator[list[Member]]:
    """Members of the same shape together, the groups no larger than wanted."""
    shapes = list(dict.fromkeys(one.shape for one in members))
    for shape in shapes:
        alike = [one for one in members if one.shape == shape]
        size = len(alike) if per_group is None else per_group
        if size < 1:
            raise InputError(f"per_group is {per_group}: wanted 1 model or more")
        for first in range(0, len(alike), size):
            yield alike[first : first + size]


def _title(members: Sequence[Member]) -> str:
    first = members[0]
    return f"{first.settings.memory} × {len(members)}, {first.recipe.name}"


def _checksum(data: Sequence[Sequences]) -> str:
    return " ".join(sequences.checksum(part) for part in data)


def _difference(found: Any, wanted: Any) -> str:
    """The first setting in which two lists of groups differ, in words."""
    if not isinstance(found, list):
        return ""
    found = {read_member(one).label: read_member(one) for group in found for one in group}
    wanted = {read_member(one).label: read_member(one) for group in wanted for one in group}
    for label in sorted(found.keys() ^ wanted.keys()):
        return f" ({label} is {'not wanted now' if label in found else 'not in it'})"
    for label, one in found.items():
        for name in ("recipe", "settings"):
            before, now = vars(getattr(one, name)), vars(getattr(wanted[label], name))
            for setting in before:
                if before[setting] != now[setting]:
                    return f" ({setting} was {before[setting]}, is {now[setting]})"
    return " (other groups)"


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed or the process was asked to end; a second time ends it at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number, frame):
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        # Not by print, which may be what was interrupted.
        os.write(2, b"\nsaccade: stops and saves after this chunk of updates; once more stops at once\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- Runs, looked at -----------------------------------------------------------------------------------------------


def metrics(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """The metrics of a run so far: a row for each model and evaluation."""
    rows = []
    for path in sorted(Path(folder).glob("group-*/metrics.csv")):
        with path.open(newline="") as file:
            rows += [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)]
    return rows


def _value(name: str, text: str) -> Any:
    if name in ("label", "recipe", "memory"):
        return text
    return int(text) if name in ("seed", "update") else float(text) if text else None


def status(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """Where each group of a run stands: title, update, updates, and finished, running, stopped or not begun."""
    folder = Path(folder)
    found = []
    for number, group in enumerate(about(folder)["groups"]):
        members = [read_member(one) for one in group]
        place = group_folder(folder, number)
        done, updates = updates_done(folder, number), members[0].recipe.updates
        if done == updates:
            state = "finished"
        elif not place.exists():
            state = "not begun"
        else:
            state = "running" if is_held(place) else "stopped"
        found.append(
            {"group": number + 1, "title": _title(members), "update": done or 0, "updates": updates, "state": state}
        )
    return found


def is_held(place: Path) -> bool:
    """Whether some process trains the group whose folder this is."""
    try:
        with only_one(place, "looking"):
            return False
    except FileError:
        return True


COMPARED = ("observation_mse", "action_mse", "gate_rate", "skip_mse")


def compare(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """The newest measures of a run: for every recipe, memory and λ, mean and deviation over seeds."""
    about(folder)  # raises if it is no run
    newest = {row["label"]: row for row in metrics(folder)}
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in newest.values():
        groups.setdefault((row["recipe"], row["memory"], row["sparsity"], row["update"]), []).append(row)
    found = []
    for (recipe, memory, sparsity, update), rows in groups.items():
        numbers = {name: [row[name] for row in rows if row.get(name) is not None] for name in COMPARED}
        spread = {
            name: {"mean": float(np.mean(values)), "deviation": float(np.std(values, ddof=len(values) > 1))}
            for name, values in numbers.items()
            if values
        }
        one = {"recipe": recipe, "memory": memory, "sparsity": sparsity, "update": update, "seeds": len(rows)}
        found.append({**one, **spread})
    return found
