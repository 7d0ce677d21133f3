"""Learned event segmentation (section V-A of the paper; claims A1 to A5): models and sequences in, tidy tables out.

Events are looked for in models with gates only; the GRU takes part in prediction errors and as surprise among rivals.
Truth is the script's own phase, boundaries agree within one step, and a sequence's first step never counts.
"""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from saccade import sequences, training
from saccade.events import agreement
from saccade.models import EventModel
from saccade.networks import beta_nll
from saccade.sequences import Sequences
from saccade.studies import rivals
from saccade.studies.study import (
    SHOWN,
    Rows,
    Seen,
    Study,
    Tell,
    ahead,
    each,
    kinds,
    near,
    observe,
    rounded,
    without_first,
    write_json,
)
from saccade.training import Member, Recipe, population

# --- Settings ------------------------------------------------------------------------------------------------------

TOLERANCE = 1
"""Steps between a boundary and the true one that it may stand for."""
TRANSITIONS = (("reach", "grasp"), ("grasp", "transport"), ("transport", "hold"), ("point", "hold"))
CONTACT, ARRIVAL = "reach-grasp", "point-hold"
IN_USE = 0.01
"""A dimension is in use if it opens at this share of any one transition, or more."""
EXAMPLES = 3
"""How many sequences of each kind, the first ones of the test set, are shown."""
EXAMPLE_SEEDS = 2
"""How many models, the first seeds, they are shown with."""
NOISE_SEED = 0
"""Of what is added to the sequences that rivals and models both see."""
MEASURES = (
    *("observation_mse", "action_mse", "observation_nll", "action_nll"),
    *("gate_rate", "skip_mse", "skip_nll"),
)

# --- Prediction ----------------------------------------------------------------------------------------------------


def curves(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`training.csv`: the validation measures of every model at every evaluation."""
    return {"training.csv": training.metrics(study.run)}


def prediction(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`test.csv`: how well finished models predict, and how often their gates open, over the whole test set."""
    test = study.test
    size = max(size for size in range(1, min(len(test), 960) + 1) if len(test) % size == 0)
    data = population.on_device(test, Recipe(), sequences.standardise(test))
    judge = jax.jit(population.judge, static_argnames=("recipe", "size"))

    def of(member: Member) -> dict[str, Any]:
        recipe = Recipe(skip_steps=member.recipe.skip_steps)  # else the paper's: finished models take plain inputs
        found = judge(population.Training(study.model(member), (), ()), data, recipe=recipe, size=size)
        return about(member, recipe=member.recipe.name) | {
            name: float(found[name]) if name in found else None for name in MEASURES
        }

    return {"test.csv": each(of, study.members, "prediction", tell)}


# --- Events of finished models -------------------------------------------------------------------------------------


def gates(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """When and in which dimensions gates open: `agreement`, `openings`, `transitions`, `dimensions`, `overlap`.csv."""
    test = study.test

    def of(member: Member) -> dict[str, Rows]:
        seen = observe(study.model(member), test)
        rates = dimensions(seen, test)
        found = {
            "agreement.csv": agreements(seen, test, member.seed),
            "openings.csv": openings(seen, test),
            "transitions.csv": transitions(seen, test, member.seed),
            "dimensions.csv": rates,
            "overlap.csv": [overlap(rates)],
        }
        return {name: [about(member) | row for row in rows] for name, rows in found.items()}

    tables = each(of, study.gated, "gates", tell)
    return {name: [row for table in tables for row in table[name]] for name in tables[0]}


def agreements(seen: Seen, over: Sequences, seed: int) -> Rows:
    """How well boundaries agree with the truth, for all sequences and each kind.

    Boundaries are all openings, the episodes made of them, and as many as each of these put at random steps of the
    same sequences (`random openings`; `random` are as many as episodes).
    """
    true = rivals.transitions(over)
    boundaries = {
        "openings": seen.openings,
        "episodes": seen.episodes,
        "random": rivals.random_boundaries(seen.episodes, seed),
        "random openings": rivals.random_boundaries(seen.openings, seed),
    }
    rows = []
    for boundary, found in boundaries.items():
        for kind, index in {"all": np.arange(len(over)), **kinds(over)}.items():
            score = agreement(found[:, index], true[:, index], tolerance=TOLERANCE)
            rows.append(
                {
                    "boundaries": boundary,
                    "kind": kind,
                    "found": score.found,
                    "true": score.true,
                    "matched": score.matched,
                    "precision": score.precision,
                    "recall": score.recall,
                    "f1": score.f1,
                }
            )
    return rows


def openings(seen: Seen, over: Sequences) -> Rows:
    """How often any gate opens at each step of each kind, which share of gates, and how far the latent state moves."""
    return [
        {
            "kind": kind,
            "step": step + 1,
            "opening_rate": float(seen.opening[step, index].mean()),
            "gate_rate": float((seen.gate[step, index] > 0).mean()),
            "strength": float(seen.strength[step, index].mean()),
        }
        for kind, index in kinds(over).items()
        for step in range(over.time)
    ]


def transitions(seen: Seen, over: Sequences, seed: int) -> Rows:
    """Which share of the transitions of each sort have an opening within a step, and if as many lay at random."""
    found, by_chance = near(seen.openings, TOLERANCE), rivals.random_boundaries(seen.openings, seed)
    by_chance = near(by_chance, TOLERANCE)
    return [
        {
            "transition": name,
            "recall": float(found[true].mean()) if true.any() else None,
            "random": float(by_chance[true].mean()) if true.any() else None,
            "count": int(true.sum()),
        }
        for name, true in transitions_of(over).items()
    ]


def transitions_of(over: Sequences) -> dict[str, np.ndarray]:
    """Where each sort of transition is, (time, count)."""
    assert over.event is not None  # scripted sequences have true events
    event = np.asarray(over.event).T
    found = {}
    for before, after in TRANSITIONS:
        marks = np.zeros(event.shape, bool)
        marks[1:] = (event[:-1] == over.event_names.index(before)) & (event[1:] == over.event_names.index(after))
        found[f"{before}-{after}"] = marks
    return found


def dimensions(seen: Seen, over: Sequences) -> Rows:
    """At which share of the transitions of each sort each latent dimension opens, within a step."""
    opened = near(without_first(seen.gate > 0), TOLERANCE)
    return [
        {"transition": name, "dimension": dimension, "rate": float(rate)}
        for name, true in transitions_of(over).items()
        for dimension, rate in enumerate(opened[true].mean(0) if true.any() else np.zeros(opened.shape[2]))
    ]


def overlap(rates: Rows) -> dict[str, Any]:
    """Whether the dimensions of pointing's arrival are those of reaching's contact with the object.

    `overlap` is how probably a dimension that opens at arrival (drawn by how often it does) also opens at contact;
    `chance` the same if dimensions were permuted, which is how probably any dimension opens at contact; `chance_in_use`
    if only those were permuted that open at some transition at all. NaN where nothing opens at arrival.
    """
    by = {name: np.array([row["rate"] for row in rates if row["transition"] == name]) for name, _ in _named(rates)}
    contact, arrival = by[CONTACT], by[ARRIVAL]
    in_use = np.max(list(by.values()), axis=0) >= IN_USE
    nan = float("nan")
    return {
        "overlap": float(arrival @ contact / arrival.sum()) if arrival.any() else nan,
        "chance": float(contact.mean()),
        "chance_in_use": float(contact[in_use].mean()) if in_use.any() else nan,
        "in_use": int(in_use.sum()),
    }


def _named(rates: Rows) -> list[tuple[str, None]]:
    return [(name, None) for name in dict.fromkeys(row["transition"] for row in rates)]


# --- Against rivals ------------------------------------------------------------------------------------------------


def against_rivals(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """`rivals.csv`: established methods, surprise peaks of our GRUs, and our gates, on the same noisy sequences.

    What a noise level gave is kept until all are done, since they take long.
    """
    levels = [level for level in rivals.NOISE if level.name in study.scale.rivalry.levels]
    rows: Rows = []
    for number, level in enumerate(levels):
        for name, judge in (("gates", of_gates), ("rivals", of_rivals)):
            path = study.out / "parts" / f"{name}-{level.name}.json"
            made_from = json.loads(json.dumps([study.made_from, _plain(study.scale.rivalry), level]))
            known = json.loads(path.read_text()) if path.exists() else {}
            if known.get("made_from") != made_from:
                known = {"made_from": made_from, "rows": judge(study, level, tell)}
                write_json(path, known)
            rows += known["rows"]
        if tell:
            tell("rivals", number + 1, len(levels))
    return {"rivals.csv": rows}


def of_rivals(study: Study, level: rivals.Noise, tell: Tell | None = None) -> Rows:
    """How the other methods do at one noise level."""
    wanted = study.scale.rivalry
    train = study.train
    if wanted.training is not None:
        train = train[rivals.spread(train, wanted.training)]
    compare = partial(
        rivals.compare, train, study.test, levels=(level,), limit=wanted.limit, seed=NOISE_SEED, workers=wanted.workers
    )
    nobody = {"label": None, "sparsity": None, "seed": None}
    rows = [nobody | row for row in compare(methods=wanted.methods, inputs=wanted.inputs)]
    gru = [one for one in study.members if one.settings.memory == "gru"]
    for member in gru:
        model = study.model(member)
        found = compare(methods=("surprise peaks",), inputs=("both",), surprise=partial(surprise, model), workers=1)
        rows += [{"label": member.label, "sparsity": None, "seed": member.seed} | row for row in found]
    return rows


def of_gates(study: Study, level: rivals.Noise, tell: Tell | None = None) -> Rows:
    """How our gates do at one noise level: those of models that saw clean sequences in training, and of retrained ones.

    Retrained models are the fair comparison, since the others' settings are chosen on sequences as noisy as these.
    """
    shown = rivals.noisy(study.test, level.sensory, level.motor, NOISE_SEED)
    shown = shown[rivals.spread(study.test, study.scale.rivalry.limit)]
    true = rivals.transitions(shown)
    models = [(member, "gates", study.model(member)) for member in study.gated]
    models += [(member, "retrained gates", model) for member, model in retrained(study, level, tell)]

    def of(one: tuple[Member, str, EventModel]) -> Rows:
        member, name, model = one
        seen = observe(model, shown)
        boundaries = {f"{name}, episodes": seen.episodes, f"{name}, openings": seen.openings}
        return [_scored(member, method, found, true, level) for method, found in boundaries.items()]

    return [row for some in each(of, models, f"gates, {level.name} noise", tell) for row in some]


def retrained(study: Study, level: rivals.Noise, tell: Tell | None = None) -> list[tuple[Member, EventModel]]:
    """Models at the shown λ that learned from sequences with as much noise, and nothing else changed."""
    if not level.sensory and not level.motor:
        return [(member, study.model(member)) for member in study.shown]
    place = study.out / "noisy" / level.name
    place.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(("train", "validation")):
        path = place / f"{split}.safetensors"
        if not path.exists():  # other noise than what they are tested with, else it would be something to learn
            clean = sequences.load(study.data / path.name)
            sequences.save(rivals.noisy(clean, level.sensory, level.motor, NOISE_SEED + 2 + number), path)
    # Gates do not depend on the skip network.
    recipe = replace(study.recipe, skip_steps=0, evaluate_every=study.recipe.updates)
    members = training.members(recipe, sparsities=(SHOWN,), seeds=study.scale.seeds)
    name = f"retraining, {level.name} noise"
    run = place / "training"
    if not training.train(run, members, place, tell=(lambda at: tell(name, at.update, at.updates)) if tell else None):
        raise KeyboardInterrupt
    return [(member, study.model(member, run=run)) for member in members]


def _scored(member: Member, method: str, found, true, level: rivals.Noise) -> dict[str, Any]:
    score = agreement(found, true, tolerance=TOLERANCE)
    return {
        "label": member.label,
        "sparsity": member.sparsity,
        "seed": member.seed,
        "method": method,
        "input": "both",
        "noise": level.name,
        "sensory": level.sensory,
        "motor": level.motor,
        "parameter": "",
        "precision": _or_none(score.precision),
        "recall": _or_none(score.recall),
        "f1": _or_none(score.f1),
        "sequences": true.shape[1],
        "seconds": None,
        "tuning_seconds": None,
    }


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def _plain(rivalry: Any) -> list:
    return [list(value) if isinstance(value, tuple) else value for value in vars(rivalry).values()]


def surprise(model: EventModel, over: Sequences) -> Float[np.ndarray, "time count"]:
    """How unexpected what is seen and done at each step was to a model: the negative log-likelihood of both.

    At the first step nothing was expected; it is as little surprising as the least surprising one.
    """
    batch = sequences.batch(over)
    found = np.asarray(_surprise(model, batch.observation, batch.action))
    return np.concatenate([np.full_like(found[:1], found.min()), found])


@eqx.filter_jit
def _surprise(model, observation, action):
    predicted = model.forward_inverse.observe(observation, action)
    earlier = jax.tree.map(lambda array: array[:-1], (predicted.observation, predicted.action))
    return beta_nll(earlier[0], observation[1:], 0.0) + beta_nll(earlier[1], action[1:], 0.0)


# --- Examples ------------------------------------------------------------------------------------------------------


def examples(study: Study, tell: Tell | None = None) -> dict[str, Any]:
    """`examples.json`: the first test sequences of each kind with all that a few models made of them."""
    test = study.test
    chosen = {kind: index[:EXAMPLES] for kind, index in kinds(test).items()}
    numbers = np.concatenate(list(chosen.values()))
    within = {int(number): place for index in chosen.values() for place, number in enumerate(index)}
    over = test[numbers]
    made: list[dict[str, Any]] = []
    for member in study.shown[:EXAMPLE_SEEDS]:
        model = study.model(member)
        seen = observe(model, over)
        # The last step has no later boundary, and the skip network says nothing of it that could come true.
        said = ahead(model, over, range(1, over.time))
        true = rivals.transitions(over)
        for place, number in enumerate(numbers):
            kind = over.kind_names[int(np.asarray(over.kind)[place])]
            made.append(
                {
                    "title": f"{kind} {within[int(number)] + 1}, seed {member.seed}",
                    "kind": kind,
                    "number": int(number),
                    "seed": member.seed,
                    "observation_names": list(over.observation_names),
                    "action_names": list(over.action_names),
                    "entities": {name: list(own) for name, own in over.entities.items()},
                    "observation": rounded(over.observation[place]),
                    "action": rounded(over.action[place]),
                    "phase": [over.event_names[event] for event in np.asarray(over.event)[place]],
                    "latent_change": rounded(seen.latent[:, place] - seen.initial[place]),
                    "gate": rounded(seen.gate[:, place]),
                    "strength": rounded(seen.strength[:, place]),
                    "opening": seen.opening[:, place].tolist(),
                    "boundary": seen.episodes[:, place].tolist(),
                    "true_boundary": true[:, place].tolist(),
                    "skip_mean": _padded(said.mean[:, place]),
                    "skip_sd": _padded(said.deviation[:, place]),
                    "table_height": round(float(over.columns["table_height"][place]), 5),
                }
            )
        if tell:
            tell("examples", len(made), len(numbers) * len(study.shown[:EXAMPLE_SEEDS]))
    return {"examples.json": made}


def _padded(said: np.ndarray) -> list:
    """What was said at every step but the last, and None for it."""
    return [*rounded(said), [None] * said.shape[1]]


def about(member: Member, **more: Any) -> dict[str, Any]:
    """The columns that say which model a row is about."""
    return {
        "label": member.label,
        **more,
        "memory": member.settings.memory,
        "sparsity": member.sparsity,
        "seed": member.seed,
    }


STEPS = {
    "curves": (curves, ("training.csv",)),
    "prediction": (prediction, ("test.csv",)),
    "gates": (gates, ("agreement.csv", "openings.csv", "transitions.csv", "dimensions.csv", "overlap.csv")),
    "rivals": (against_rivals, ("rivals.csv",)),
    "examples": (examples, ("examples.json",)),
}
"""What is measured, one after the other, and which tables each gives."""
