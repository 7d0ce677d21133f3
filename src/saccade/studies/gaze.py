"""Where models look (section V-D of the paper; claims D1 to D4): models trained with a focus in, tidy tables out.

Models watch test sequences and choose their focus to be sure of where the hand will be: at the next step (intra), at
the next event boundary (inter), or both. What counts is when each entity is first attended, against when the hand gets
to the object (reaching) or to the goal (pointing).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saccade import attention, events, preset, saving, sequences, training
from saccade.checks import FileError
from saccade.models import EventModel
from saccade.sequences import Sequences
from saccade.studies import segmentation
from saccade.studies.study import Rows, Seen, Study, Tell, each, kinds, rounded
from saccade.training import Member
from saccade.training.population import wanted_boundaries

# --- Settings ------------------------------------------------------------------------------------------------------

SPARSITIES = (2.0, 5.0)
"""λ: the paper's 5, and a smaller one for the fast recipe, which closes nearly all gates at 5 (docs/recipes.md)."""
COMPARED: tuple[tuple[str, float, str | int], ...] = (("true", 2.0, "true"), ("every6", 2.0, 6))
"""Models whose skip network looks ahead by other boundaries than learned ones: name, λ, and which.

Six steps are the mean length of an event in reaching: four of them in 25 steps.
"""
CHECKPOINTS = 26
"""At most so many points of training, the untrained and the finished model among them."""
ABOUT = "hand"
"""The entity whose future position models want to be sure of."""
NEAR = 0.02
"""Metres between the hand and what it moves to, below which the event counts as over."""
NOISE_SEED = 0
"""Of sensory noise and random focus: the same for all models."""
EXAMPLES = 3
"""How many sequences of each condition, the first ones of the test set, are shown, with the first seed of each λ."""
CHUNK = 640  # sequences at a time: with three foci, the widest layer takes some 4 MB


class Condition(NamedTuple):
    """What is watched, and what the choice of a focus goes by."""

    name: str
    kind: str
    intra: float
    """γ, the weight of the next observation's uncertainty against the next boundary's."""
    target: str
    """Where the hand gets to as the event ends."""


CONDITIONS = (
    Condition("intra", "reach-grasp-transport", 1.0, "object"),
    Condition("inter", "reach-grasp-transport", 0.0, "object"),
    Condition("both", "reach-grasp-transport", 0.5, "object"),
    Condition("point", "point", 0.5, "goal"),
)

# --- Models --------------------------------------------------------------------------------------------------------


def members(study: Study) -> list[Member]:
    """The models that have a focus: every λ, and those with other boundaries, all with every seed."""
    name = f"{study.recipe.name}-gaze"
    recipe = replace(study.recipe, focus_changes=attention.CHANGES, focus_noise=attention.NOISE, name=name)
    settings = preset(context=len(study.train.entities))

    def of(recipe, sparsities):
        return training.members(recipe, settings=settings, sparsities=sparsities, seeds=study.scale.seeds)

    found = of(recipe, SPARSITIES)
    for other, sparsity, boundaries in COMPARED:
        found += of(replace(recipe, boundaries=boundaries, name=f"{name}-{other}"), (sparsity,))
    return found


def folder(study: Study) -> Path:
    """Where they are trained: apart from the models of other studies, which have no focus."""
    return study.out / "training-gaze"


def trained(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze_training.csv`: trains the models, or goes on with it; their validation measures at every evaluation."""
    run = folder(study)
    told = (lambda at: tell(at.group, at.update, at.updates)) if tell else None
    if not training.train(run, members(study), study.data, tell=told):
        raise KeyboardInterrupt
    return {"gaze_training.csv": training.metrics(run)}


def checkpoints(study: Study) -> list[int]:
    """The updates whose models are looked at."""
    curve = np.array(study.curve)
    return curve[np.unique(np.linspace(0, len(curve) - 1, CHECKPOINTS).round().astype(int))].tolist()


def model_of(study: Study, member: Member, update: int) -> EventModel:
    """A model as it was after so many updates."""
    path = training.milestone(folder(study), member.label, update)
    model = saving.load(path)
    if not isinstance(model, EventModel):
        raise FileError(f"{path} holds no EventModel: train again in another folder")
    return model


def about(member: Member) -> dict[str, Any]:
    """The columns that say which model a row is about."""
    return segmentation.about(member, boundaries=str(member.recipe.boundaries))


# --- When models look where ----------------------------------------------------------------------------------------


def arrivals(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze.csv`: how long before or after the event's end each entity is first attended, over training."""
    watched = [(condition, _of_kind(study.test, condition.kind)) for condition in CONDITIONS]
    points = [(member, update) for member in members(study) for update in checkpoints(study)]

    def of(point: tuple[Member, int]) -> Rows:
        model = model_of(study, *point)
        return [
            about(point[0]) | {"update": point[1]} | row
            for condition, over in watched
            for row in arrivals_of(focus(model, over, condition.intra), over, condition)
        ]

    return {"gaze.csv": [row for rows in each(of, points, "gaze", tell) for row in rows]}


def arrivals_of(looked: Float[np.ndarray, "time count entities"], over: Sequences, condition: Condition) -> Rows:
    """For each entity: `lead`, the mean over sequences of the step it is first attended minus that of the event's end.

    Sequences whose event never ends are left out; `share` says in how many of the others the entity is attended at all,
    `deviation` how much the lead differs between them, `end` when the event ends in the mean.
    """
    observation = np.swapaxes(over.observation[:, : over.time], 0, 1)
    end = attention.first_near(observation, over.entities[ABOUT], over.entities[condition.target], NEAR)
    ended = np.isfinite(end)
    lead = (attention.arrival(looked) - end[:, None])[ended]
    attended = np.any(looked > 0, axis=0)[ended]
    return [
        {
            "condition": condition.name,
            "kind": condition.kind,
            "entity": entity,
            "lead": float(lead[:, number].mean()) if ended.any() else None,
            "deviation": float(lead[:, number].std()) if ended.any() else None,
            "share": float(attended[:, number].mean()) if ended.any() else None,
            "end": float(end[ended].mean()) if ended.any() else None,
            "count": int(ended.sum()),
        }
        for number, entity in enumerate(over.entities)
    ]


def focus(
    model: EventModel, over: Sequences, intra: float, way: Callable[..., attention.Look] = attention.watch
) -> Float[np.ndarray, "time count entities"]:
    """What the model attends to at every step of all sequences."""
    return np.concatenate([np.asarray(look.focus)[:, :count] for look, count in _watched(model, over, intra, way)], 1)


def _watched(model, over, intra, way=attention.watch) -> Iterator[tuple[attention.Look, int]]:
    for batch, key, count in _chunks(over):
        chosen = {"entities": over.entities, "about": over.entities[ABOUT], "intra": intra, "key": key}
        yield way(model, batch.observation, batch.action[0], **chosen), count


def _chunks(over: Sequences) -> Iterator[tuple[Any, Any, int]]:
    """Batches of one size, each with a key for its noise, and how many of its sequences are no repetition."""
    size = min(CHUNK, len(over))
    for first in range(0, len(over), size):
        batch = sequences.batch(over, np.minimum(np.arange(first, first + size), len(over) - 1))
        key = jax.random.fold_in(jax.random.key(NOISE_SEED), first)
        yield jax.tree.map(jnp.asarray, batch), key, min(size, len(over) - first)


def _of_kind(over: Sequences, kind: str) -> Sequences:
    return over[kinds(over)[kind]]


# --- Whether what they go by can be believed -----------------------------------------------------------------------


def calibration(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze_calibration.csv`: squared errors in units of predicted variance, by network, attended entity, dimension."""
    test, key = study.test, jax.random.key(NOISE_SEED)

    def of(member: Member) -> Rows:
        wanted = wanted_boundaries(test, member.recipe)
        model = model_of(study, member, study.recipe.updates)
        rows = attention.calibration(model, test, key=key, boundary=None if wanted is None else wanted.T)
        return [about(member) | row for row in rows]

    return {"gaze_calibration.csv": [row for rows in each(of, members(study), "calibration", tell) for row in rows]}


def gates(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze_gates.csv`: at which share of each sort of transition gates open, within a step, seen through the mask.

    `opening_rate` is the share of all steps but the first, of the kind of sequence with that transition, at which any
    gate opens: an opening near every transition says nothing if there is one at every step.
    """
    test = study.test

    def of(member: Member) -> Rows:
        seen = observe(model_of(study, member, study.recipe.updates), test)
        having = {name: true.any(0) for name, true in segmentation.transitions_of(test).items()}
        return [
            about(member)
            | row
            | {"opening_rate": float(seen.opening[1:, having[row["transition"]]].mean()) if row["count"] else None}
            for row in segmentation.transitions(seen, test, member.seed)
        ]

    return {"gaze_gates.csv": [row for rows in each(of, members(study), "gates", tell) for row in rows]}


def observe(model: EventModel, over: Sequences) -> Seen:
    """What the model's memory does over these sequences, seen with a focus that changes at random."""
    others = attention.unattended(over.entities, over.sizes["observation"])
    parts = []
    for batch, key, count in _chunks(over):
        found = _observe(model, batch.observation, batch.action, others, key)
        parts.append([np.asarray(array)[:, :count] for array in found])
    initial, *rest = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    return Seen(initial[0], *rest)


@eqx.filter_jit
def _observe(model, observation, action, others, key):
    views, looked = attention.look_around(key, observation, others)
    seen = model.forward_inverse.observe(views, action, looked)
    opening, strength = events.openings(seen.gate), events.strength(seen.latent, seen.initial)
    return seen.initial[None], seen.latent, seen.gate, opening, strength


# --- Examples ------------------------------------------------------------------------------------------------------


def examples(study: Study, tell: Tell | None = None) -> dict[str, Any]:
    """`gaze_examples.json`: the first test sequences of each condition, and where finished models look in them."""
    shown = [member for member in members(study) if member.seed == study.scale.seeds[0]]
    made = []
    for done, member in enumerate(shown):
        model = model_of(study, member, study.recipe.updates)
        for condition in CONDITIONS:
            over = _of_kind(study.test, condition.kind)[:EXAMPLES]
            look, _ = next(_watched(model, over, condition.intra))
            made += [
                {
                    "title": f"{condition.name} {place + 1}, {member.label}",
                    **about(member),
                    "condition": condition.name,
                    "kind": condition.kind,
                    "entities": {name: list(own) for name, own in over.entities.items()},
                    "observation": rounded(over.observation[place]),
                    "table_height": round(float(over.columns["table_height"][place]), 5),
                    "focus": [list(over.entities)[one] for one in np.asarray(look.focus)[:, place].argmax(-1)],
                    "intra": rounded(np.asarray(look.intra)[:, place]),
                    "inter": rounded(np.asarray(look.inter)[:, place]),
                    "opening": (np.asarray(look.gate)[:, place] > 0).any(-1).tolist(),
                }
                for place in range(len(over))
            ]
        if tell:
            tell("gaze examples", done + 1, len(shown))
    return {"gaze_examples.json": made}


STEPS = {
    "gaze training": (trained, ("gaze_training.csv",)),
    "gaze": (arrivals, ("gaze.csv",)),
    "gaze calibration": (calibration, ("gaze_calibration.csv",)),
    "gaze gates": (gates, ("gaze_gates.csv",)),
    "gaze examples": (examples, ("gaze_examples.json",)),
}
"""What is measured, one after the other, and which tables each gives."""
