"""What both studies share: their settings at three scales, trained models and test sequences at hand, and tables.

A study is a folder. `training` holds one run that both studies look at, `tables` what they measured, `stages.json`
what each finished stage was made from, so that it is made again only if that has changed.
"""

import csv
import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from saccade import events, saving, sequences, training
from saccade.checks import FileError, InputError, check_choice
from saccade.files import replacing
from saccade.models import EventModel
from saccade.sequences import Sequences
from saccade.studies import rivals
from saccade.training import Member, Recipe

# --- Settings ------------------------------------------------------------------------------------------------------

SHOWN = 1.0
"""The λ whose models the paper looks into."""
VERSION = 2
"""Goes up when a measure changes its meaning: tables made before are then made again."""
SPLITS: tuple[str, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class Rivalry:
    """Which rivals are compared with, on what, and on how many test sequences."""

    methods: tuple[str, ...] = tuple(method for method in rivals.RIVALS if method != "surprise peaks")
    """Besides our own GRUs' surprise peaks, which always take part."""
    inputs: tuple[str, ...] = rivals.INPUTS
    levels: tuple[str, ...] = tuple(level.name for level in rivals.NOISE)
    limit: int | None = None
    """At most so many test sequences; None: all."""
    training: int | None = None
    """At most so many training sequences to tune on; None: as many as `rivals.compare` takes."""
    workers: int | None = None
    """Processes; None: one for each core."""


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    name: str
    per_kind: int
    """Sequences of each kind in each split."""
    seeds: tuple[int, ...]
    sparsities: tuple[float, ...]
    """λ of the models with gates."""
    gru: bool = True
    """Whether the GRU ablation is trained too."""
    gaze: int | None = None
    """How many variants of models that look around are trained, the first of `gaze.VARIANTS`; None: all."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which the recipe differs from the named one."""
    gaze_recipe: Mapping[str, Any] = field(default_factory=dict)
    """What changes further for models that look around."""
    data: str | None = None
    """The folder of the sequences; None: one of the study's own."""
    curve_on: int = 960
    """Test sequences, evenly spread, behind a point of a curve over training. Final models are measured on all."""
    curve_points: int = 41
    """At most so many checkpoints, evenly spread, are looked at for such a curve."""
    rivalry: Rivalry = Rivalry()


SCALES = {
    "smoke": Scale(
        name="smoke",
        per_kind=64,
        seeds=(5, 6),
        sparsities=(1.0,),
        gaze=1,
        recipe={"updates": 100, "evaluate_every": 50, "evaluate_on": 96},
        curve_on=96,
        rivalry=Rivalry(
            methods=("PELT", "random"), inputs=("actions",), levels=("clean",), limit=48, training=48, workers=1
        ),
    ),
    "demo": Scale(
        name="demo",
        per_kind=640,
        seeds=(5, 6),
        sparsities=(1.0,),
        gru=False,
        gaze=0,
        recipe={"updates": 6_000, "evaluate_every": 500, "evaluate_on": 576},
        curve_on=240,
        curve_points=11,
        rivalry=Rivalry(methods=("PELT", "random"), inputs=("actions",), levels=("clean",), limit=300, training=150),
    ),
    "quick": Scale(
        name="quick",
        per_kind=640,
        seeds=(5, 6, 7),
        sparsities=(0.1, 1.0),
        gaze=1,
        recipe={"updates": 5_000, "evaluate_every": 250, "evaluate_on": 576},
        curve_on=480,
        rivalry=Rivalry(
            methods=("kernel change points", "PELT", "hidden Markov", "random"),
            inputs=("actions", "both"),
            levels=("clean", "middle"),
            limit=300,
            training=150,
        ),
    ),
    "full": Scale(
        name="full",
        per_kind=3_200,
        seeds=tuple(range(5, 15)),
        sparsities=(0.0, 0.1, 1.0, 5.0),
        gaze_recipe={"updates": 40_000, "evaluate_every": 1_000},
        data="data",
    ),
}

Tell = Callable[[str, int, int], None]
"""Is told the name of what is under way, how much of it is done and how much wanted."""
Rows = list[dict[str, Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")

# --- A study -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """One scale and recipe in one folder."""

    scale: Scale
    recipe: Recipe
    """With the scale's changes; its name is that of the recipe it began as."""
    out: Path

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All models, in the order of all tables; only those that the paper looks into have a trained skip network."""
        seeds, without = self.scale.seeds, replace(self.recipe, skip_steps=0)
        wanted = [
            training.members(self.recipe if sparsity == SHOWN else without, sparsities=(sparsity,), seeds=seeds)
            for sparsity in self.scale.sparsities
        ]
        if self.scale.gru:
            wanted.append(training.members(without, sparsities=(), gru=True, seeds=seeds))
        return tuple(one for some in wanted for one in some)

    @property
    def gated(self) -> tuple[Member, ...]:
        """The models with gates."""
        return tuple(one for one in self.members if one.settings.memory == "gatel0rd")

    @property
    def shown(self) -> tuple[Member, ...]:
        """The models that the paper looks into."""
        return tuple(one for one in self.gated if one.sparsity == SHOWN)

    @property
    def data(self) -> Path:
        """Where the sequences are."""
        return self.out / "data" if self.scale.data is None else Path(self.scale.data)

    @property
    def run(self) -> Path:
        """Where the models are trained."""
        return self.out / "training"

    @property
    def tables(self) -> Path:
        """Where the tables go."""
        return self.out / "tables"

    @cached_property
    def train(self) -> Sequences:
        """The sequences that models were trained on."""
        return sequences.load(self.data / "train.safetensors")

    @cached_property
    def test(self) -> Sequences:
        """The sequences that everything is measured on."""
        return sequences.load(self.data / "test.safetensors")[:]

    @cached_property
    def test_spread(self) -> Sequences:
        """Those of them that curves over training are measured on."""
        return self.test[rivals.spread(self.test, self.scale.curve_on)]

    @property
    def curve(self) -> tuple[int, ...]:
        """The updates whose models make a curve over training, the first and last among them."""
        every, last = self.recipe.evaluate_every, self.recipe.updates
        kept = np.array([*range(0, last, every), last])
        return tuple(
            map(int, kept[np.unique(np.linspace(0, len(kept) - 1, self.scale.curve_points).round()).astype(int)])
        )

    def model(self, member: Member, update: int | None = None, *, run: Path | None = None) -> EventModel:
        """A model as it was after so many updates, by default all of them; of another run than the study's if given."""
        update = self.recipe.updates if update is None else update
        path = training.milestone(self.run if run is None else run, member.label, update)
        model = saving.load(path)
        if not isinstance(model, EventModel):
            raise FileError(f"{path} holds no EventModel: train again in another folder")
        return model

    @cached_property
    def made_from(self) -> dict[str, Any]:
        """What every table depends on, in what JSON can hold; training refuses other models in the same folder."""
        return {
            "version": VERSION,
            "scale": {
                name: value
                for name, value in asdict(self.scale).items()
                if name not in ("rivalry", "gru", "gaze", "gaze_recipe")
            },
            "recipe": asdict(self.recipe),
            "settings": asdict(self.members[0].settings),
            "training_data": training.about(self.run)["data_checksum"],
            "test_data": sequences.checksum(self.test),
        }

    def is_done(self, stage: str, made_from: Mapping[str, Any]) -> bool:
        """Whether a stage was finished, from the same, and what it made is still there."""
        known = _ledger(self.out).get(stage)
        return (
            known is not None
            and known["made_from"] == json.loads(json.dumps(made_from))
            and all((self.out / output).exists() for output in known["outputs"])
        )

    def record(self, stage: str, made_from: Mapping[str, Any], outputs: Iterable[Path], seconds: float) -> None:
        """Writes down that a stage is finished."""
        known = _ledger(self.out)
        known[stage] = {
            "made_from": made_from,
            "outputs": sorted(os.path.relpath(output, self.out) for output in outputs),
            "seconds": round(seconds, 1),
        }
        write_json(self.out / "stages.json", known, indent=1)


def begin(scale: str | Scale, recipe: str, out: str | os.PathLike | None = None) -> Study:
    """The study of a scale (`smoke`, `quick`, `full`) and a recipe, by default in `runs/SCALE-RECIPE`."""
    if isinstance(scale, str):
        check_choice("scale", scale, SCALES)
        scale = SCALES[scale]
    if SHOWN not in scale.sparsities:
        raise InputError(f"sparsities are {scale.sparsities}: wanted {SHOWN:g} among them, which the paper looks into")
    return Study(
        scale,
        training.recipe(recipe, **scale.recipe, name=recipe),
        Path(out) if out is not None else Path("runs") / f"{scale.name}-{recipe}",
    )


def _ledger(out: Path) -> dict[str, Any]:
    path = out / "stages.json"
    return read_json(path) if path.exists() else {}


# --- Models over sequences -----------------------------------------------------------------------------------------

CHUNK = 960  # sequences at a time: some 50 MB


class Seen(NamedTuple):
    """What a model's memory did over sequences, time-major, in NumPy."""

    initial: Float[np.ndarray, "count latent"]
    latent: Float[np.ndarray, "time count latent"]
    gate: Float[np.ndarray, "time count latent"]
    opening: Bool[np.ndarray, "time count"]
    strength: Float[np.ndarray, "time count"]

    @property
    def openings(self) -> Bool[np.ndarray, "time count"]:
        """Where some gate opened, as boundaries: the first step, where nothing has happened yet, never counts."""
        return without_first(self.opening)

    @property
    def episodes(self) -> Bool[np.ndarray, "time count"]:
        """The boundaries that `events.episodes` makes of it by default, never the first step."""
        return without_first(events.episodes(self.opening, self.strength))


class Ahead(NamedTuple):
    """What a skip network said at some steps, and what came true."""

    mean: Float[np.ndarray, "steps count observation"]
    deviation: Float[np.ndarray, "steps count observation"]
    target: Float[np.ndarray, "steps count observation"]
    """The observation at the next boundary."""


def observe(model: EventModel, over: Sequences) -> Seen:
    """What the model's memory does over these sequences."""
    initial, *rest = _chunked(_observe, model, over)
    return Seen(initial[0], *rest)


@eqx.filter_jit
def _observe(model, observation, action):
    seen = model.forward_inverse.observe(observation, action)
    opening, strength = events.openings(seen.gate), events.strength(seen.latent, seen.initial)
    return seen.initial[None], seen.latent, seen.gate, opening, strength


def ahead(model: EventModel, over: Sequences, steps: Sequence[int]) -> Ahead:
    """What the skip network says after these steps, counted from 1, of the next boundary."""
    rows = np.array(steps) - 1
    if not steps or rows.min() < 0 or rows.max() > over.time - 2:
        raise InputError(
            f"steps are {tuple(steps)}: wanted some from 1 to {over.time - 1}, after which something follows"
        )
    return Ahead(*_chunked(_ahead, model, over, rows))


@eqx.filter_jit
def _ahead(model, observation, action, rows):
    seen = model.forward_inverse.observe(observation, action)
    said = model.skip(observation[rows], seen.latent[rows])
    target = events.skip_targets(observation, events.boundaries(seen.gate))
    return said.mean, jax.numpy.sqrt(said.variance), target[rows]


def _chunked(work: Callable, model: EventModel, over: Sequences, *more: Any) -> list[np.ndarray]:
    """The results of a compiled function over all sequences, some at a time, so that memory stays small."""
    size = min(CHUNK, len(over))
    parts = []
    for first in range(0, len(over), size):
        # The last chunk is filled up, since another shape would have to be compiled.
        index = np.minimum(np.arange(first, first + size), len(over) - 1)
        batch = sequences.batch(over, index)
        found = work(model, batch.observation, batch.action, *more)
        parts.append([np.asarray(array)[:, : len(over) - first] for array in found])
    return [np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)]


def without_first(boundary: np.ndarray) -> np.ndarray:
    """The same boundaries without the first step."""
    boundary = boundary.copy()
    boundary[0] = False
    return boundary


def near(marked: np.ndarray, tolerance: int = 1) -> np.ndarray:
    """Which steps have a marked one within the tolerance; time is the first axis."""
    found = marked.copy()
    for by in range(1, tolerance + 1):
        found[by:] |= marked[:-by]
        found[:-by] |= marked[by:]
    return found


def kinds(over: Sequences) -> dict[str, np.ndarray]:
    """Which sequences are of each kind."""
    assert over.kind is not None  # scripted sequences have kinds
    return {name: np.flatnonzero(over.kind == number) for number, name in enumerate(over.kind_names)}


def each(work: Callable[[Item], Result], items: Sequence[Item], name: str, tell: Tell | None = None) -> list[Result]:
    """The results of something done with each item, every device with its own share of them at the same time."""
    devices = jax.local_devices()
    results: list[Any] = [None] * len(items)
    count, lock, stopping = [0], threading.Lock(), threading.Event()

    def on(which: int):
        with jax.default_device(devices[which]):
            for index in range(which, len(items), len(devices)):
                if stopping.is_set():
                    return
                results[index] = work(items[index])
                with lock:
                    count[0] += 1
                    if tell:
                        tell(name, count[0], len(items))

    with ThreadPoolExecutor(len(devices)) as pool:
        try:
            for done in [pool.submit(on, which) for which in range(len(devices))]:
                done.result()
        except BaseException:  # Ctrl-C too should not wait for all that is left
            stopping.set()
            raise
    return results


# --- Files ---------------------------------------------------------------------------------------------------------


def write_table(path: Path, rows: Rows) -> None:
    """Writes rows as CSV, over what was there; numbers have six digits, what is not known is left empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, overwrite=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)


def _text(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return "" if value is None else value


def read_table(path: Path) -> Rows:
    """The rows of such a file, with numbers as numbers and None where nothing is known."""
    try:
        with path.open(newline="") as file:
            return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error


def _value(text: str) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def write_json(path: Path, content: Any, *, indent: int | None = None) -> None:
    """Writes JSON, over what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, overwrite=True) as temporary:
        temporary.write_text(json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """What such a file holds."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist: make it with `saccade reproduce`, or name another folder") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error


def rounded(array: np.ndarray) -> list:
    """An array as lists of numbers with five digits, for JSON."""
    array = np.asarray(array)
    if array.dtype.kind in "biu":
        return array.tolist()
    return np.vectorize(lambda value: float(f"{value:.5g}"), otypes=[float])(array).tolist()


def checksum(paths: Iterable[Path]) -> str:
    """A text that differs for other files or other content."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
