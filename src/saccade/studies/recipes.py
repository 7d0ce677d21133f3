"""Which recipe? How fast models learn, and what their gates mark, when they are trained in different ways.

All start from one recipe and change a setting or two; `docs/recipes.md` tells what came out.
"""

import csv
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saccade import events, models, saving, sequences, training
from saccade.files import replacing
from saccade.models import EventModel, ForwardInverseModel
from saccade.sequences import Sequences
from saccade.studies.rivals import transitions

SEEDS = (5, 6, 7, 8)
UPDATES = 20_000
START = {"warmup": 500}
"""What the recipe that all variants start from changes in `fast`, which is the variant that came out best."""
VARIANTS: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "start": ({}, (0.0, 0.1, 1.0, 1.5, 2.0, 5.0)),
    "rate-0.001": ({"learning_rate": 1e-3}, (1.0,)),
    "rate-0.002": ({"learning_rate": 2e-3}, (1.0,)),
    "clip-0.1": ({"clip": 0.1}, (1.0,)),
    "epsilon-0.0001": ({"epsilon": 1e-4}, (1.0,)),
    "fast": ({"warmup": 2_000}, (1.0,)),
    "final-0.1": ({"final": 0.1}, (1.0,)),
    "beta-0": ({"beta": 0.0}, (1.0,)),
    "beta-1": ({"beta": 1.0}, (1.0,)),
    "sparsity-at-once": ({"sparsity_warmup": 0}, (0.1, 1.0, 5.0)),
    "sparsity-at-once-warmup-2000": ({"sparsity_warmup": 0, "warmup": 2_000}, (1.0,)),
    "sparsity-in-3000": ({"sparsity_warmup": 3_000}, (1.0,)),
    "sparsity-in-3000-rate-0.002": ({"sparsity_warmup": 3_000, "learning_rate": 2e-3}, (1.0,)),
    "sparsity-in-5000": ({"sparsity_warmup": 5_000}, (1.0, 3.0, 5.0)),
    "sparsity-in-10000": ({"sparsity_warmup": 10_000}, (1.0, 5.0)),
    "sparsity-in-20000": ({"sparsity_warmup": 20_000}, (1.0, 5.0)),
}
"""Settings that differ from those of the start, and the λ they are tried with."""


def members(updates: int = UPDATES) -> list[training.Member]:
    """Every variant with every seed; the skip network, which changes nothing in the gates, is left out."""
    found = []
    for name, (changes, sparsities) in VARIANTS.items():
        recipe = training.recipe(
            "fast", **{"name": name, "updates": updates, "skip_steps": 0, "evaluate_every": 2_000, **START, **changes}
        )
        found += training.members(recipe, sparsities=sparsities, seeds=SEEDS)
    return found


def run(folder: str | os.PathLike, data: str | os.PathLike, *, updates: int = UPDATES, tell=None) -> Path | None:
    """Trains all variants in a folder, on a folder of scripted sequences, and writes `recipes.csv`, a row for each.

    None if it was interrupted; the same call goes on.
    """
    return run_members(folder, data, members(updates), measure, "recipes.csv", tell=tell)


def run_members(
    folder: str | os.PathLike,
    data: str | os.PathLike,
    wanted: Sequence[training.Member],
    measure: Callable[[Path, training.Member, Sequences], dict[str, Any]],
    table: str,
    *,
    tell=None,
) -> Path | None:
    """Trains models in a folder, or goes on with it, and writes a table with what is measured of each of them."""
    run = Path(folder) / "training"
    told = (lambda at: tell(at.group, at.update, at.updates)) if tell else None
    if not training.train(run, wanted, data, tell=told):
        return None
    judged = sequences.load(Path(data) / "validation.safetensors")  # a recipe is a choice: not by the test sequences
    rows = []
    for number, one in enumerate(wanted):
        rows.append(measure(run, one, judged))
        if tell:
            tell(table, number + 1, len(wanted))
    path = Path(folder) / table
    with replacing(path, overwrite=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def keep(table: str | os.PathLike, results: str | os.PathLike) -> Path:
    """Copies a table of recipes to a folder of its name in `results`, with a note of what made it; says where it is."""
    table = Path(table)
    folder, place = table.parent, Path(results) / table.stem
    place.mkdir(parents=True, exist_ok=True)
    known = training.about(Path(folder) / "training")
    about = {
        "made_by": known["made_by"],
        "data_checksum": known["data_checksum"],
        "seeds": sorted({one["seed"] for group in known["groups"] for one in group}),
        "updates": training.status(Path(folder) / "training")[0]["updates"],
    }
    for name, content in (
        (table.name, table.read_text()),
        ("provenance.json", json.dumps(about, indent=1)),
    ):
        with replacing(place / name, overwrite=True) as temporary:
            temporary.write_text(content)
    return place / table.name


def measure(run: Path, member: training.Member, over: Sequences) -> dict[str, Any]:
    """What became of a model: errors, gate rate, and how well its gates mark the scripts' transitions."""
    model = saving.load(training.milestone(run, member.label, member.recipe.updates))
    assert isinstance(model, EventModel)
    batch = sequences.batch(over)
    errors, gate, strength = look(model.forward_inverse, batch)
    true, opened = transitions(over), np.any(gate > 0, axis=-1)
    row = {"recipe": member.recipe.name, "sparsity": member.sparsity, "seed": member.seed, **errors}
    for name, found in (("opening", opened), ("episode", events.episodes(opened, strength))):
        found[0] = False  # the first step cannot be a transition
        agreement = events.agreement(found, true)
        row |= {f"{name}_{what}": getattr(agreement, what) for what in ("precision", "recall", "f1")}
    for name, marked in by_transition(over, true).items():
        row[f"recall_{name}"] = events.agreement(opened & _near(marked), marked).recall
    for number, kind in enumerate(over.kind_names):
        row[f"openings_{kind}"] = opened[:, over.kind == number].sum(0).mean()
    return row


@jax.jit
def _look(model: ForwardInverseModel, observation, action, next_observation):
    seen = model.observe(observation, action)
    errors = models.measure(seen, next_observation, action)
    return errors, seen.gate, events.strength(seen.latent, seen.initial)


def look(model: ForwardInverseModel, batch: sequences.Batch, size: int = 1_200):
    """Measures, gates and strengths of a model on sequences, `size` of them at a time."""
    count = batch.observation.shape[1]
    parts = []
    for first in range(0, count, size):
        some = [jnp.asarray(array[:, first : first + size]) for array in batch[:3]]
        parts.append(jax.device_get(_look(model, *some)))
    weights = [part[1].shape[1] / count for part in parts]
    errors = {
        name: float(sum(weight * part[0][name] for weight, part in zip(weights, parts, strict=True)))
        for name in ("observation_mse", "action_mse", "gate_rate")
    }
    return errors, np.concatenate([part[1] for part in parts], 1), np.concatenate([part[2] for part in parts], 1)


def by_transition(over: Sequences, true: np.ndarray) -> dict[str, np.ndarray]:
    """The true boundaries apart, by the events before and after them."""
    assert over.event is not None
    event = np.asarray(over.event).T
    found: dict[str, np.ndarray] = {}
    for before, after in _pairs(event, true):
        marked = np.zeros(true.shape, bool)
        marked[1:] = true[1:] & (event[:-1] == before) & (event[1:] == after)
        found[f"{over.event_names[before]}-{over.event_names[after]}"] = marked
    return found


def _pairs(event: np.ndarray, true: np.ndarray) -> Sequence[tuple[int, int]]:
    steps, which = np.nonzero(true)
    return sorted(set(zip(event[steps - 1, which].tolist(), event[steps, which].tolist(), strict=True)))


def _near(marked: np.ndarray) -> np.ndarray:
    """Steps within one of those marked."""
    near = marked.copy()
    near[1:] |= marked[:-1]
    near[:-1] |= marked[1:]
    return near
