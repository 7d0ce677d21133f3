"""Which recipe for models that look around? What was tried before `gaze` was settled; `docs/attention.md` tells.

Wanted were gates that open at contact under the mask, variances that can be believed, and a skip network that is
surer of the next boundary with some foci than with others.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from saccade import attention, models, saving, training
from saccade.sequences import Sequences
from saccade.studies import gaze, recipes, segmentation
from saccade.studies.study import Tell, kinds

SEEDS = (5, 6, 7)
SHORT, LONG = {"updates": 20_000, "evaluate_every": 4_000}, {"updates": 40_000, "evaluate_every": 8_000}
VARIANTS: dict[str, tuple[models.ModelSettings, dict[str, Any], tuple[float, ...]]] = {
    "paper-sizes-rise-1000": (models.preset(), {**SHORT, "sparsity_warmup": 1_000}, (2.0, 3.0, 5.0)),
    "paper-sizes-rise-5000": (models.preset(), {**SHORT, "sparsity_warmup": 5_000}, (2.0, 3.0, 5.0)),
    "paper-sizes-rise-20000": (models.preset(), {**SHORT, "sparsity_warmup": 20_000}, (5.0,)),
    "rise-1000": (gaze.SIZES, {**LONG, "sparsity_warmup": 1_000}, (5.0,)),
    "rise-10000": (gaze.SIZES, {**LONG, "sparsity_warmup": 10_000}, (3.0, 5.0, 8.0, 12.0, 20.0)),
    "rise-20000": (gaze.SIZES, {**LONG, "sparsity_warmup": 20_000}, (8.0, 20.0)),
}
"""Sizes, what changes in the recipe `fast`, and the λ it is tried with."""


def members() -> list[training.Member]:
    """Every variant with every seed."""
    found = []
    for name, (settings, changes, sparsities) in VARIANTS.items():
        recipe = training.recipe("fast", name=name, focus_changes=attention.CHANGES, **changes)
        sizes = replace(settings, context=3)
        found += training.members(recipe, settings=sizes, sparsities=sparsities, seeds=SEEDS)
    return found


def run(folder: str | os.PathLike, data: str | os.PathLike, *, tell: Tell | None = None) -> Path | None:
    """Trains all variants in a folder, on a folder of scripted sequences, and writes `gaze-recipes.csv`.

    None if it was interrupted; the same call goes on.
    """
    return recipes.run_members(folder, data, members(), measure, "gaze-recipes.csv", tell=tell)


def measure(run: Path, member: training.Member, over: Sequences) -> dict[str, Any]:
    """When a finished model first looks at what, what its gates mark, and how much of its variances can be believed."""
    model = saving.load(training.milestone(run, member.label, member.recipe.updates))
    assert isinstance(model, models.EventModel)
    row: dict[str, Any] = {"recipe": member.recipe.name, "sparsity": member.sparsity, "seed": member.seed}
    seen = gaze.observe(model, over)
    found = {one["transition"]: one["recall"] for one in segmentation.transitions(seen, over, member.seed)}
    row |= {f"recall_{name}": recall for name, recall in found.items()}
    row |= {f"openings_{kind}": float(seen.opening[1:, own].mean()) for kind, own in kinds(over).items()}
    for condition in gaze.CONDITIONS:
        own = over[kinds(over)[condition.kind]]
        looked = gaze.focus(model, own, condition.intra)
        for one in gaze.arrivals_of(looked, own, condition):
            row[f"lead_{condition.name}_{one['entity']}"] = one["lead"]
    rows = attention.calibration(model, over, key=jax.random.key(gaze.NOISE_SEED))
    for network in ("forward", "skip"):
        ratios = np.array([one["ratio"] for one in rows if one["network"] == network])
        row[f"calibrated_{network}"] = float(np.mean((ratios >= 0.8) & (ratios <= 1.25)))
    return row
