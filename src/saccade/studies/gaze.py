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

from saccade import attention, events, preset, sequences, training
from saccade.models import EventModel
from saccade.sequences import Sequences
from saccade.studies import rivals, segmentation
from saccade.studies.study import VERSION, Rows, Seen, Study, Tell, each, kinds, rounded
from saccade.training import Member, Recipe
from saccade.training.population import wanted_boundaries
from saccade.worlds.scripted import CLAW

# --- Settings ------------------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """Models that differ in how sparse their memory is, in what their skip network looks ahead to, or in what they see.

    By other boundaries than learned ones, by how much are learned events responsible for where models look? With a
    salient cue at every event's end, do they look ahead earlier in training? Is what moves in unfamiliar ways looked
    at less ahead of time?
    """

    name: str
    sparsity: float
    boundaries: str | int = "learned"
    data: str = "plain"


SPARSITY = 20.0
"""λ for the fast recipe (docs/attention.md says how it was found)."""
VARIANTS = (
    Variant("learned", SPARSITY),
    Variant("learned", 5.0),  # the paper's λ
    Variant("true", SPARSITY, boundaries="true"),
    Variant("every6", SPARSITY, boundaries=6),  # the mean length of an event in reaching: four of them in 25 steps
    Variant("cue", SPARSITY, data="cue"),
    Variant("rare", SPARSITY, data="rare"),
    Variant("common", SPARSITY, data="common"),
)
SIZES = preset("original", skip_shared=preset().skip_shared, skip_from_opening="next_boundary")
"""The sizes of the authors' own forward–inverse model: with those the paper prints, less is made of what is seen."""
SLOWLY = 0.25
"""The share of training in which λ rises: slower than the fast recipe has it."""
WHOLE = 40_000
"""Updates that the λ above are for. Shorter training has smaller ones in proportion, else gates only close."""
CALIBRATED_ON = 1_920
"""Validation sequences, evenly spread, by which predicted variances are scaled."""
CUE = 0.1
"""How large the signal is that a cue gives at the first step of a new event: about as much as positions differ."""
CLAWS = {"rare": 0.05, "common": 0.5}
"""Which share of reaches is a claw's, which moves along one axis at a time, instead of the hand's."""
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
OF_CLAWS = (Condition("claw inter", CLAW, 0.0, "object"), Condition("claw", CLAW, 0.5, "object"))

# --- What they see -------------------------------------------------------------------------------------------------


def with_cue(plain: Sequences) -> Sequences:
    """The same sequences with a further dimension, `cue`: `CUE` at the first step of every new event, 0 at others."""
    cue = np.zeros((*plain.observation.shape[:2], 1), plain.observation.dtype)
    cue[:, : plain.time, 0][rivals.transitions(plain).T] = CUE
    return replace(
        plain,
        observation=np.concatenate([plain.observation, cue], axis=2),
        observation_names=(*plain.observation_names, "cue"),
        observation_units=(*plain.observation_units, "") if plain.observation_units else (),
        origin={**plain.origin, "cue": CUE},
    )


def with_claws(plain: Sequences, claws: Sequences, share: float) -> Sequences:
    """The same sequences with so large a share of the reaches, the first ones, replaced by a claw's."""
    reaches = kinds(plain)["reach-grasp-transport"]
    count = round(share * len(reaches))
    rest = np.setdiff1d(np.arange(len(plain)), reaches[:count])
    mixed = sequences.concatenate([claws[:count], plain[rest]])
    return replace(mixed, origin={**plain.origin, "claws": count})


def data_of(study: Study, name: str) -> Path:
    """The folder with training and validation sequences of some data, made if it is not there."""
    if name == "plain":
        return study.data
    folder = study.out / "gaze-data" / name
    for split in ("train", "validation"):
        path = folder / f"{split}.safetensors"
        if not path.exists():
            plain = sequences.load(study.data / path.name)
            folder.mkdir(parents=True, exist_ok=True)
            if name == "cue":
                made = with_cue(plain)
            else:
                reaches = len(kinds(plain)["reach-grasp-transport"])
                made = with_claws(plain, claws(study, split, round(max(CLAWS.values()) * reaches)), CLAWS[name])
            sequences.save(made, path)
    return folder


def claws(study: Study, split: str, count: int) -> Sequences:
    """So many reaches of a claw, made if they are not there."""
    path = study.out / "gaze-data" / f"claws-{split}.safetensors"
    if not path.exists():
        from saccade.worlds import dataset  # it needs a simulator, which looking does not

        path.parent.mkdir(parents=True, exist_ok=True)
        sequences.save(dataset.scripted_sequences(CLAW, count, seed=dataset.SEED, split=split), path)
    return sequences.load(path)[:]


def shown_to(study: Study, variant: Variant) -> list[tuple[Condition, Sequences]]:
    """What models of a variant are tested with."""
    test = _test(study, variant)
    found = [(condition, _of_kind(test, condition.kind)) for condition in CONDITIONS]
    if variant.data in CLAWS:
        reaches = claws(study, "test", len(kinds(test)["reach-grasp-transport"]))
        found += [(condition, reaches) for condition in OF_CLAWS]
    return found


# --- Models --------------------------------------------------------------------------------------------------------


class Watcher(NamedTuple):
    """One model of a variant."""

    variant: Variant
    member: Member


def watchers(study: Study) -> list[Watcher]:
    """All models: every variant that the scale wants with every seed."""
    recipe = recipe_of(study)
    found = []
    for variant in VARIANTS[: study.scale.gaze]:
        settings = replace(SIZES, context=3, observation=12 if variant.data == "cue" else 11)
        own = replace(recipe, boundaries=variant.boundaries, name=f"{recipe.name}-{variant.name}")
        sparsity = variant.sparsity * min(1, recipe.updates / WHOLE)
        some = training.members(own, settings=settings, sparsities=(sparsity,), seeds=study.scale.seeds)
        found += [Watcher(variant, member) for member in some]
    return found


def recipe_of(study: Study) -> Recipe:
    """How they are trained: as the study's recipe says, with a focus; the fast one longer, and λ rising more slowly."""
    name = f"{study.recipe.name}-gaze"
    recipe = replace(study.recipe, focus_changes=attention.CHANGES, focus_noise=attention.NOISE, name=name)
    if study.recipe.name == "paper":
        return recipe
    recipe = replace(recipe, **study.scale.gaze_recipe)
    return replace(recipe, sparsity_warmup=round(SLOWLY * recipe.updates))


def folder(study: Study, data: str) -> Path:
    """Where models are trained that see some data."""
    return study.out / "training-gaze" / data


def made_from(study: Study) -> dict[str, Any]:
    """What this study's tables depend on, in what JSON can hold."""
    return {
        "version": VERSION,
        "models": [[*variant, member.about()] for variant, member in watchers(study)],
        "data": [training.about(folder(study, name))["data_checksum"] for name in _data(study)],
        "test_data": sequences.checksum(study.test),
    }


def _data(study: Study) -> list[str]:
    return list(dict.fromkeys(watcher.variant.data for watcher in watchers(study)))


def train(study: Study, tell: Tell | None = None) -> bool:
    """Trains all models, or goes on with it; whether they are finished, or else it was interrupted."""
    for name in _data(study):
        some = [member for variant, member in watchers(study) if variant.data == name]
        told = (lambda at: tell(at.group, at.update, at.updates)) if tell else None
        if not training.train(folder(study, name), some, data_of(study, name), tell=told):
            return False
    return True


def curves(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze_training.csv`: the validation measures of every model at every evaluation."""
    return {"gaze_training.csv": [row for name in _data(study) for row in training.metrics(folder(study, name))]}


def checkpoints(study: Study) -> list[int]:
    """The updates whose models are looked at."""
    recipe = recipe_of(study)
    kept = np.array([*range(0, recipe.updates, recipe.evaluate_every), recipe.updates])
    return kept[np.unique(np.linspace(0, len(kept) - 1, CHECKPOINTS).round().astype(int))].tolist()


def model_of(study: Study, watcher: Watcher, update: int | None = None) -> EventModel:
    """A model as it was after so many updates, by default all of them."""
    update = watcher.member.recipe.updates if update is None else update
    return study.model(watcher.member, update, run=folder(study, watcher.variant.data))


def scaling_of(model: EventModel, watcher: Watcher, over: Sequences) -> attention.Scaling:
    """By how much the model's variances have to be scaled, by validation sequences."""
    return attention.scaling(model, over, key=jax.random.key(NOISE_SEED + 1), boundary=_wanted(over, watcher))


def _validation(study: Study) -> dict[str, Sequences]:
    """The sequences, of all data, by which variances are scaled."""
    found = {}
    for name in _data(study):
        whole = sequences.load(data_of(study, name) / "validation.safetensors")
        found[name] = whole[rivals.spread(whole, CALIBRATED_ON)]
    return found


def _wanted(over: Sequences, watcher: Watcher) -> np.ndarray | None:
    """Where the skip network was trained to look ahead to, if not to where gates open."""
    found = wanted_boundaries(over, watcher.member.recipe)
    return None if found is None else found.T


def about(watcher: Watcher) -> dict[str, Any]:
    """The columns that say which model a row is about."""
    return segmentation.about(watcher.member, variant=watcher.variant.name)


# --- When models look where ----------------------------------------------------------------------------------------


def arrivals(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze.csv`: how long before or after the event's end each entity is first attended, over training."""
    shown = {variant: shown_to(study, variant) for variant in dict.fromkeys(one.variant for one in watchers(study))}
    validation = _validation(study)
    points = [(watcher, update) for watcher in watchers(study) for update in checkpoints(study)]

    def of(point: tuple[Watcher, int]) -> Rows:
        model = model_of(study, *point)
        scaling = scaling_of(model, point[0], validation[point[0].variant.data])
        return [
            about(point[0]) | {"update": point[1]} | row
            for condition, over in shown[point[0].variant]
            for row in arrivals_of(focus(model, over, condition.intra, scaling), over, condition)
        ]

    return {"gaze.csv": [row for rows in each(of, points, "gaze", tell) for row in rows]}


def arrivals_of(looked: Float[np.ndarray, "time count entities"], over: Sequences, condition: Condition) -> Rows:
    """For each entity: `lead`, the mean over sequences of the step it is first attended minus that of the event's end.

    Sequences whose event never ends are left out; `share` says in how many of the others the entity is attended at all,
    `deviation` how much the lead differs between them, `end` when the event ends in the mean.
    """
    end = ends_of(over, condition)
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


def ends_of(over: Sequences, condition: Condition) -> Float[np.ndarray, " count"]:
    """The step, counted from 1, at which the hand gets to its target; NaN if it never does."""
    observation = np.swapaxes(over.observation[:, : over.time], 0, 1)
    return attention.first_near(observation, over.entities[ABOUT], over.entities[condition.target], NEAR)


def focus(
    model: EventModel,
    over: Sequences,
    intra: float,
    scaling: attention.Scaling | None = None,
    way: Callable[..., attention.Look] = attention.watch,
) -> Float[np.ndarray, "time count entities"]:
    """What the model attends to at every step of all sequences."""
    looks = _watched(model, over, intra, scaling, way)
    return np.concatenate([np.asarray(look.focus)[:, :count] for look, count in looks], 1)


def _watched(model, over, intra, scaling, way=attention.watch) -> Iterator[tuple[attention.Look, int]]:
    for batch, key, count in _chunks(over):
        chosen = {"entities": over.entities, "about": over.entities[ABOUT], "intra": intra, "key": key}
        yield way(model, batch.observation, batch.action[0], scaling=scaling, **chosen), count


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
    """`gaze_calibration.csv`: squared errors in units of predicted variance, by network, attended entity, dimension.

    `ratio` is that of variances as they are used, scaled on validation sequences, `unscaled` that of the networks' own.
    """
    key, validation = jax.random.key(NOISE_SEED), _validation(study)

    def of(watcher: Watcher) -> Rows:
        model, test = model_of(study, watcher), _test(study, watcher.variant)
        given = {"key": key, "boundary": _wanted(test, watcher)}
        scaling = scaling_of(model, watcher, validation[watcher.variant.data])
        scaled, plain = (attention.calibration(model, test, scaling=by, **given) for by in (scaling, None))
        return [about(watcher) | row | {"unscaled": own["ratio"]} for row, own in zip(scaled, plain, strict=True)]

    return {"gaze_calibration.csv": [row for rows in each(of, watchers(study), "calibration", tell) for row in rows]}


def gates(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`gaze_gates.csv`: at which share of each sort of transition gates open, within a step, seen through the mask.

    `opening_rate` is the share of all steps but the first, of the kind of sequence with that transition, at which any
    gate opens: an opening near every transition says nothing if there is one at every step.
    """

    def of(watcher: Watcher) -> Rows:
        test = _test(study, watcher.variant)
        seen = observe(model_of(study, watcher), test)
        having = {name: true.any(0) for name, true in segmentation.transitions_of(test).items()}
        return [
            about(watcher)
            | row
            | {"opening_rate": float(seen.opening[1:, having[row["transition"]]].mean()) if row["count"] else None}
            for row in segmentation.transitions(seen, test, watcher.member.seed)
        ]

    return {"gaze_gates.csv": [row for rows in each(of, watchers(study), "gates", tell) for row in rows]}


def _test(study: Study, variant: Variant) -> Sequences:
    return with_cue(study.test) if variant.data == "cue" else study.test


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
    first, validation = study.scale.seeds[0], _validation(study)
    shown = [one for one in watchers(study) if one.member.seed == first and one.variant.name == "learned"]
    made = []
    for done, watcher in enumerate(shown):
        model = model_of(study, watcher)
        scaling = scaling_of(model, watcher, validation[watcher.variant.data])
        for condition in CONDITIONS:
            over = _of_kind(study.test, condition.kind)[:EXAMPLES]
            end = ends_of(over, condition)
            look, _ = next(_watched(model, over, condition.intra, scaling))
            made += [
                {
                    "title": f"{condition.name} {place + 1}, λ = {watcher.member.sparsity:g}",
                    **about(watcher),
                    "condition": condition.name,
                    "kind": condition.kind,
                    "entities": {name: list(own) for name, own in over.entities.items()},
                    "observation": rounded(over.observation[place]),
                    "table_height": round(float(over.columns["table_height"][place]), 5),
                    "focus": [list(over.entities)[one] for one in np.asarray(look.focus)[:, place].argmax(-1)],
                    "intra": rounded(np.asarray(look.intra)[:, place]),
                    "inter": rounded(np.asarray(look.inter)[:, place]),
                    "end": int(end[place]) if np.isfinite(end[place]) else None,
                    "opening": (np.asarray(look.gate)[:, place] > 0).any(-1).tolist(),
                }
                for place in range(len(over))
            ]
        if tell:
            tell("gaze examples", done + 1, len(shown))
    return {"gaze_examples.json": made}


STEPS = {
    "gaze curves": (curves, ("gaze_training.csv",)),
    "gaze": (arrivals, ("gaze.csv",)),
    "gaze calibration": (calibration, ("gaze_calibration.csv",)),
    "gaze gates": (gates, ("gaze_gates.csv",)),
    "gaze examples": (examples, ("gaze_examples.json",)),
}
"""What is measured, one after the other, and which tables each gives."""
