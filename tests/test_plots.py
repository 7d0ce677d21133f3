"""The figures of the studies, drawn from made-up tables that look like real ones."""

import csv
import json
from itertools import product

import numpy as np
import pytest

from saccade import plots
from saccade.checks import FileError
from saccade.worlds.scripted import KINDS

SEEDS = range(5, 9)
SPARSITIES = (0, 0.1, 1, 5)
STEPS, LATENT = 25, 16
UPDATES = [0, *np.geomspace(200, 20_000, 24).astype(int).tolist()]
TRUE = {"reach-grasp-transport": (11, 14, 20), "point": (12,), "stretch": ()}
PHASES = {
    "reach-grasp-transport": ("reach", "grasp", "transport", "hold"),
    "point": ("point", "hold"),
    "stretch": ("stretch",),
}
NAMES = [
    *("training", "examples", "openings", "transitions", "agreement", "rivals"),
    *("skip_distances", "skip_spread", "skip_hands", "skip_distances_of_others", "skip_others"),
    *("gaze_2", "gaze_5", "gaze_compared", "gaze_calibration", "gaze_calibration_compared"),
    "gaze_gates",
]
ENTITIES = ("hand", "object", "goal")


# --- Made-up tables ------------------------------------------------------------------------------------------------


def write_tables(folder, seeds=SEEDS, sparsities=SPARSITIES):
    """All tables of all studies, as a good run would leave them."""
    rng = np.random.default_rng(0)
    gated = [("gatel0rd", sparsity, seed) for sparsity, seed in product(sparsities, seeds)]
    models = [*gated, *(("gru", 0, seed) for seed in seeds)]
    folder.mkdir(exist_ok=True)
    _write(folder / "training.csv", (_training(rng, *model, update) for model in models for update in UPDATES))
    _write(folder / "openings.csv", (_opening(rng, *m, k, s) for m in gated for k in KINDS for s in range(1, 26)))
    _write(folder / "agreement.csv", _agreements(rng, gated))
    _write(folder / "transitions.csv", _transitions(rng, gated))
    _write(folder / "rivals.csv", _rivals(rng, seeds, sparsities))
    _write(folder / "skip_distances.csv", _distances(rng, gated))
    _write(
        folder / "skip_spread.csv",
        (
            {"sparsity": 1, "kind": kind, "update": update, "spread": last + 0.2 * np.exp(-update / 2500)}
            for kind, last in zip(KINDS, (0.03, 0.025, 0.11), strict=True)
            for update in UPDATES
        ),
    )
    sequences = {kind: _sequence(rng, kind) for kind in KINDS}
    (folder / "examples.json").write_text(json.dumps([_example(rng, kind, sequences[kind]) for kind in KINDS]))
    moments = [*((kind, 2) for kind in KINDS), (KINDS[0], 12)]
    scenes = [_scene(rng, kind, step, sequences[kind][0], seeds) for kind, step in moments]
    (folder / "skip_examples.json").write_text(json.dumps(scenes))
    return write_gaze_tables(folder, seeds)


def write_gaze_tables(folder, seeds=SEEDS):
    """The tables of the gaze study alone."""
    rng = np.random.default_rng(1)
    folder.mkdir(exist_ok=True)
    _write(folder / "gaze.csv", _leads(rng, seeds))
    _write(folder / "gaze_calibration.csv", _ratios(rng, seeds))
    _write(folder / "gaze_gates.csv", _gaze_gates(rng, seeds))
    return folder


def _write(path, rows):
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _model(memory, sparsity, seed):
    label = f"fast_{memory}{'' if memory == 'gru' else f'_{sparsity:g}'}_seed{seed}"
    return {"label": label, "recipe": "fast", "memory": memory, "sparsity": float(sparsity), "seed": seed}


def _training(rng, memory, sparsity, seed, update):
    worse = 1 + 0.5 * max(0, sparsity - 1)
    falling = np.exp(-update / 900) + 0.05 * np.exp(-update / 5000)
    noise = np.exp(0.12 * rng.standard_normal(3))
    rate = {0: 0.35, 0.1: 0.06, 1: 0.012}.get(sparsity, 0.003)
    return {
        **_model(memory, sparsity, seed),
        "update": update,
        "loss": 1.0,
        "observation_mse": (2e-2 * falling + 4e-6 * worse) * noise[0],
        "action_mse": (0.4 * falling + 6e-3 * worse) * noise[1],
        "gate_rate": "" if memory == "gru" else (rate + (0.5 - rate) * np.exp(-update / 1200)) * noise[2],
    }


def _opening(rng, memory, sparsity, seed, kind, step):
    near = sum(np.exp(-(((step - 1 - true) / 1.5) ** 2)) for true in TRUE[kind])
    base = {0: 0.9, 0.1: 0.3, 1: 0.03}.get(sparsity, 0.005)
    rate = np.clip(base + (0.85 if sparsity <= 1 else 0.4) * near + 0.02 * rng.standard_normal(), 0, 1)
    return {**_model(memory, sparsity, seed), "kind": kind, "step": step, "opening_rate": rate, "gate_rate": rate / 9}


def _agreements(rng, models):
    good = {0: (0.17, 1.0), 0.1: (0.35, 0.99), 1: (0.82, 0.93)}
    for (memory, sparsity, seed), sort, kind in product(models, ("openings", "episodes", "random"), ("all", "point")):
        precision, recall = good.get(sparsity, (0.9, 0.5))
        if sort == "openings":
            precision, recall = precision * 0.6, min(1, recall * 1.05)
        if sort == "random":
            precision, recall = 0.18, 0.3
        precision, recall = np.clip([precision, recall] + 0.02 * rng.standard_normal(2), 0, 1)
        yield {
            **_model(memory, sparsity, seed),
            "boundaries": sort,
            "kind": kind,
            "precision": precision,
            "recall": recall,
            "f1": 2 * precision * recall / (precision + recall),
        }


def _transitions(rng, models):
    names = {"reach→grasp": 3200, "grasp→transport": 3200, "transport→hold": 3172, "point→hold": 3188}
    for (memory, sparsity, seed), (name, count) in product(models, names.items()):
        recall = np.clip((0.97 if sparsity <= 1 else 0.55) - 0.1 * rng.random(), 0, 1)
        yield {**_model(memory, sparsity, seed), "transition": name, "recall": recall, "count": count}


def _rivals(rng, seeds, sparsities):
    levels = {"clean": (0, 0), "low": (0.005, 0.1), "middle": (0.01, 0.2), "high": (0.02, 0.4)}
    best = {"kernel change points": 0.92, "PELT": 0.85, "GSBS": 0.55, "hidden Markov": 0.7}
    shown = [(method, what) for method in best for what in ("observations", "actions", "both")]
    for (level, noise), (method, what) in product(
        levels.items(), [*shown, ("surprise peaks", "both"), ("random", "number")]
    ):
        f1 = best.get(method, 0.5 if method == "surprise peaks" else 0.3) - (0.1 if what == "observations" else 0)
        f1 = f1 if method == "random" else f1 * (1 - 20 * noise[0]) + 0.01 * rng.standard_normal()
        yield {**_row(method, what, level, noise, f1), "seed": "", "sparsity": ""}
    for (level, noise), seed, sparsity in product(levels.items(), seeds, sparsities):
        f1 = 0.93 * (1 - 12 * noise[0]) + 0.02 * rng.standard_normal()
        yield {**_row("our gates", "both", level, noise, f1), "seed": seed, "sparsity": sparsity}


def _row(method, what, level, noise, f1):
    settings = {"method": method, "input": what, "noise": level, "sensory": noise[0], "motor": noise[1]}
    return {**settings, "parameter": "", "precision": f1, "recall": f1, "f1": f1, "sequences": 9600, "seconds": 1.0}


def _distances(rng, models):
    ends = {"hand": (0.02, 0.16, 0.15), "object": (0.14, 0.02, 0.2), "goal": (0.12, 0.19, 0.02)}
    for (memory, sparsity, seed), kind, predicted in product(models, KINDS, ("hand", "object", "goal")):
        if sparsity != 1:
            continue
        apart = 0.05 * rng.standard_normal() if kind == "stretch" and predicted == "hand" else 0
        for step in (2, 12) if kind == KINDS[0] else (2,):
            nearest = {"reach-grasp-transport": "object", "point": "goal", "stretch": "hand"}[kind]
            nearest = nearest if predicted == "hand" else predicted
            nearest = "goal" if step == 12 else nearest
            for update, (to, last) in product(UPDATES, zip(("hand", "object", "goal"), ends[nearest], strict=True)):
                distance = abs(last + (0.3 - last) * np.exp(-update / 2500) + apart + 0.008 * rng.standard_normal())
                yield {
                    **_model(memory, sparsity, seed),
                    "update": update,
                    "kind": kind,
                    "from_step": step,
                    "predicted": predicted,
                    "to": to,
                    "distance": distance,
                    "deviation": 0.01,
                    "true_distance": last,
                }


GAZERS = [("learned", 2), ("learned", 5), *((name, 2) for name in ("true", "every6", "cue", "rare", "common"))]


def _leads(rng, seeds):
    """The hand is looked at early on, the goal of the event once enough was learned, the other entity never."""
    conditions = {"intra": "object", "inter": "object", "both": "object", "point": "goal", "claw": "object"}
    for (variant, sparsity), seed, (condition, target) in product(GAZERS, seeds, conditions.items()):
        if condition == "claw" and variant not in ("rare", "common"):
            continue
        soon = {"every6": 0.3, "rare": 0.6, "cue": 1.3}.get(variant, 1) * (0.5 if condition == "claw" else 1)
        last = 12 - 18 * soon * (condition != "intra")
        ends = {"hand": -9.0, "object": 13.0, "goal": 13.0} | {target: last}
        for update, (entity, end) in product(UPDATES, ends.items()):
            start = {"hand": 2, "object": 1, "goal": 4}[entity] + rng.standard_normal()
            lead = end + (start - end) * np.exp(-update / 4000) + 0.8 * rng.standard_normal()
            yield {
                "label": f"{variant}_{sparsity}_{seed}",
                "variant": variant,
                "memory": "gatel0rd",
                "sparsity": float(sparsity),
                "seed": seed,
                "update": update,
                "condition": condition,
                "kind": KINDS[1 if condition == "point" else 0],
                "entity": entity,
                "lead": lead,
                "deviation": 4.0,
                "share": 0.9,
                "end": 12.0,
                "count": 3200,
            }


def _ratios(rng, seeds):
    names = [f"{entity}_{axis}" for entity in ENTITIES for axis in "xyz"]
    names[6:6] = ["finger_right", "finger_left"]
    for (variant, sparsity), seed, network in product(GAZERS, seeds, ("forward", "skip")):
        for attended, dimension in product(ENTITIES, names):
            ratio = np.exp(0.08 * rng.standard_normal() + (0.2 if network == "skip" else 0))
            about = {"label": "", "variant": variant, "sparsity": float(sparsity), "seed": seed, "network": network}
            yield about | {"attended": attended, "dimension": dimension, "ratio": ratio, "variance": 1e-3, "count": 9}


def _gaze_gates(rng, seeds):
    names = {"reach-grasp": 0.9, "grasp-transport": 0.8, "transport-hold": 0.6, "point-hold": 0.7}
    for (variant, sparsity), seed, (name, recall) in product(GAZERS, seeds, names.items()):
        about = {"label": "", "variant": variant, "sparsity": float(sparsity), "seed": seed, "transition": name}
        recall = np.clip((recall if sparsity == 2 else 0.1) + 0.05 * rng.standard_normal(), 0, 1)
        yield about | {"recall": recall, "random": 0.3, "count": 3200, "opening_rate": recall / 4}


def _sequence(rng, kind):
    """Observations (26, 11) and actions (25, 4) of a hand that goes straight from target to target."""
    table = 0.42
    hand, thing = np.array([1.34, 0.75, table + 0.13]), np.array([1.27, 0.86, table + 0.025])
    goal = np.array([1.44, 0.65, table + 0.2])
    command = np.array([-0.5, -0.8, 0.6])
    observation, action = [], []
    for step in range(STEPS + 1):
        event = sum(step >= true for true in TRUE[kind])
        fingers = 0.05 if kind == KINDS[0] and event == 0 else 0.025
        observation.append([*hand, *thing, fingers, fingers, *goal])
        target = {"point": goal, KINDS[0]: thing if event < 2 else goal}.get(kind)
        move = command if target is None else np.clip((target - hand) * 6, -1, 1)
        move = np.clip(move + 0.05 * rng.standard_normal(3), -1, 1)
        action.append([*move, np.clip((1 if event == 0 else -1) + 0.05 * rng.standard_normal(), -1, 1)])
        hand = hand + 0.035 * move
        if kind == KINDS[0] and event >= 2:
            thing = hand.copy()
    return np.array(observation), np.array(action[:STEPS])


def _example(rng, kind, sequence):
    observation, action = sequence
    gate, change = np.zeros((2, STEPS, LATENT))
    dimensions = {"reach-grasp-transport": ((2, 7), (2, 4), (11,)), "point": ((2,),), "stretch": ()}[kind]
    for true, changed in zip(TRUE[kind], dimensions, strict=True):
        for dimension in changed:
            size = 1.2 * rng.standard_normal()
            for late in range(rng.integers(1, 4)):
                gate[true + late, dimension] = 0.6
                change[true + late :, dimension] += size / (late + 1)
    phase = np.array(PHASES[kind])[np.searchsorted(TRUE[kind], np.arange(STEPS), "right")]
    marks = np.isin(np.arange(STEPS), TRUE[kind])
    return {
        "seed": 7,
        "kind": kind,
        "title": f"{kind} 3",
        "observation": observation.tolist(),
        "action": action.tolist(),
        "phase": phase.tolist(),
        "latent_change": change.tolist(),
        "gate": gate.tolist(),
        "strength": gate.sum(1).tolist(),
        "opening": (gate > 0).any(1).tolist(),
        "boundary": np.roll(marks, 1).tolist(),
        "true_boundary": marks.tolist(),
        "table_height": 0.42,
    }


def _scene(rng, kind, step, observation, seeds):
    now = observation[step - 1]
    later = observation[next((true for true in TRUE[kind] if true >= step), STEPS)]
    loose = 0.06 if kind == "stretch" else 0.012
    predictions = [
        {
            "seed": seed,
            "hand": (later[:3] + loose * rng.standard_normal(3)).tolist(),
            "object": (later[3:6] + 0.01 * rng.standard_normal(3)).tolist(),
            "goal": (later[8:] + 0.01 * rng.standard_normal(3)).tolist(),
            "hand_sd": [0.01] * 3,
        }
        for seed in seeds
    ]
    about = {"kind": kind, "number": 3, "from_step": step, "table_height": 0.42, "predictions": predictions}
    return {**about, "observation": now.tolist(), "next": later.tolist()}


# --- Every figure --------------------------------------------------------------------------------------------------


def test_every_figure_is_drawn_twice_the_same_from_all_tables(tmp_path):
    tables = write_tables(tmp_path / "tables", seeds=SEEDS[:2], sparsities=(0, 1))
    figures = plots.draw(tables, tmp_path / "a")
    assert [figure.png.stem for figure in figures] == NAMES
    write_gaze_tables(tmp_path / "gaze", seeds=SEEDS[:2])
    for figure in plots.draw(tmp_path / "gaze", tmp_path / "b"):
        for path in (figure.png, figure.pdf):
            assert path is not None
            assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()


def test_a_figure_whose_table_is_missing_is_left_out(tmp_path):
    tables = write_gaze_tables(tmp_path / "tables", seeds=(5,))
    (tables / "gaze.csv").unlink()
    drawn = plots.draw(tables, tmp_path / "figures")
    assert [figure.png.stem for figure in drawn] == ["gaze_calibration", "gaze_calibration_compared", "gaze_gates"]
    assert "One seed (5)." in drawn[0].caption and "range" not in drawn[0].caption


# --- Gaze ----------------------------------------------------------------------------------------------------------


def _lead(folder, **wanted):
    """Rows of one lead for each seed, and of the other conditions and entities at 0."""
    rows = [
        {
            "variant": "learned",
            "sparsity": 2.0,
            "seed": seed,
            "update": update,
            "condition": condition,
            "entity": entity,
        }
        | {"lead": wanted.get(f"{condition}_{entity}", {}).get(seed, 0) * update / 100}
        for seed, update in product((5, 6, 7), (0, 100))
        for condition, entity in product(("intra", "inter", "both", "point"), ENTITIES)
    ]
    _write(folder / "gaze.csv", rows)
    return plots._read(folder / "gaze.csv")


def _panel(drawing, letter):
    return next(ax for ax in drawing.figure.axes if ax.get_title(loc="left") == letter)


def _lines(ax, look):
    return [line for line in ax.lines if line.get_color() == look.colour and line.get_marker() == look.marker]


def test_a_panel_shows_the_mean_lead_and_its_standard_error_over_seeds(tmp_path):
    table = _lead(tmp_path, both_object={5: -3, 6: -4, 7: -8}, point_goal={5: -2, 6: -2, 7: -2})
    (drawing,) = plots.gaze(table, {})
    assert drawing.name == "gaze"
    (line,) = _lines(_panel(drawing, "c"), plots.ENTITIES["object"])
    np.testing.assert_allclose(line.get_ydata(), [0, -5])
    heights = [band.get_paths()[0].vertices[:, 1] for band in _panel(drawing, "c").collections]
    error = np.std([-3, -4, -8], ddof=1) / np.sqrt(3)
    assert any(np.isclose([low.min(), low.max()], [-5 - error, 0]).all() for low in heights)
    (line,) = _lines(_panel(drawing, "d"), plots.ENTITIES["goal"])
    assert line.get_ydata()[-1] == -2


def test_before_is_below_for_models_and_infants_alike(tmp_path):
    (drawing,) = plots.gaze(_lead(tmp_path), {})
    for letter in "abcde":
        ax = _panel(drawing, letter)
        names = {text.get_text(): text for text in ax.texts}
        assert names["before"].get_va() == "top" and names["after"].get_va() == "bottom"
        zero = ax.transData.transform((0, 0))[1]
        assert (ax.transData.transform((0, 100))[1] < zero) == (letter == "e")  # milliseconds that gaze comes first
    assert "Adam & Elsner 2020" in drawing.caption and "Adam et al. 2016" in drawing.caption


def test_models_are_compared_at_the_same_sparsity_only(tmp_path):
    table = plots._read(write_gaze_tables(tmp_path) / "gaze.csv")
    (drawing,) = plots.gaze_compared(table, {})
    assert "λ = 2" in drawing.title and set(table["sparsity"]) == {2, 5}
    last = (table["update"] == UPDATES[-1]) & (table["entity"] == "object")
    for variant, condition, letter in (("learned", "both", "a"), ("cue", "both", "b"), ("true", "inter", "d")):
        rows = last & (table["variant"] == variant) & (table["condition"] == condition) & (table["sparsity"] == 2)
        (line,) = _lines(_panel(drawing, letter), plots.VARIANTS[variant])
        assert line.get_ydata()[-1] == pytest.approx(table["lead"][rows].mean())


def test_the_claw_is_shown_beside_the_hand_where_it_was_watched(tmp_path):
    table = plots._read(write_gaze_tables(tmp_path) / "gaze.csv")
    (drawing,) = plots.gaze_compared(table, {})
    assert [len(_panel(drawing, letter).collections) for letter in "cfi"] == [4, 2, 2]
    (without,) = plots.gaze_compared({name: column[table["condition"] != "claw"] for name, column in table.items()}, {})
    names = [text.get_text() for text in _panel(without, "c").get_legend().get_texts()]
    assert names == ["claw rare, hand watched", "claw common, hand watched"]


def test_nothing_is_compared_where_there_is_nothing_to_compare_with(tmp_path):
    assert list(plots.gaze_compared(_lead(tmp_path), {})) == []


def test_calibration_shows_mean_and_range_of_seeds_even_far_off_the_band(tmp_path):
    rows = [
        {"variant": "learned", "sparsity": 5.0, "seed": seed, "network": network, "attended": attended}
        | {"dimension": "hand_x", "ratio": 40.0 if (network, attended, seed) == ("skip", "goal", 6) else 1.0}
        for seed, network, attended in product((5, 6), ("forward", "skip"), ENTITIES)
    ]
    _write(tmp_path / "gaze_calibration.csv", rows)
    (drawing,) = plots.gaze_calibration(plots._read(tmp_path / "gaze_calibration.csv"), {})
    ax = _panel(drawing, "b")
    (mark,) = _lines(ax, plots.ENTITIES["goal"])
    assert mark.get_ydata()[0] == 20.5
    assert any(list(line.get_ydata()) == [1, 40] for line in ax.lines)
    assert ax.get_ylim()[1] > 40


def test_openings_at_transitions_are_shown_against_openings_at_any_step(tmp_path):
    table = plots._read(write_gaze_tables(tmp_path) / "gaze_gates.csv")
    (drawing,) = plots.gaze_gates(table, plots.looks_of([table["sparsity"]]))
    rows = (table["variant"] == "learned") & (table["sparsity"] == 5) & (table["transition"] == "reach-grasp")
    heights = [line.get_ydata()[0] for line in _lines(drawing.figure.axes[0], plots.SPARSITIES[5.0])]
    assert heights[0] == pytest.approx(table["recall"][rows].mean())
    heights = [line.get_ydata()[0] for line in drawing.figure.axes[0].lines]
    assert any(np.isclose(heights, table["opening_rate"][rows].mean()))


def test_a_gaze_table_without_a_column_is_refused(tmp_path):
    path = write_gaze_tables(tmp_path, seeds=(5,)) / "gaze.csv"
    path.write_text(path.read_text().replace("variant", "boundaries", 1))
    with pytest.raises(FileError, match="has no column 'variant'"):
        plots.draw(tmp_path, tmp_path / "figures")
