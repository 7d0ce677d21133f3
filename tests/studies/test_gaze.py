"""Where models look: leads against the event's end, and the study from training to its tables."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from saccade import EventModel, attention, preset, sequences, training
from saccade.benchmarks import gaze as benchmark
from saccade.sequences import Sequences
from saccade.studies import gaze, gaze_recipes, recipes
from saccade.studies.study import Scale, Study, read_table, write_json, write_table
from saccade.worlds import dataset
from saccade.worlds.scripted import CLAW

ENTITIES = {"hand": (0, 1, 2), "object": (3, 4, 5), "goal": (8, 9, 10)}
EVENTS = ("reach", "grasp", "transport", "hold", "point", "stretch")
KINDS = ("reach-grasp-transport", "point", "stretch")
STEPS = 10


@pytest.fixture(scope="module", autouse=True)
def _single_precision():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def scene(count=12, seed=0) -> Sequences:
    """A hand that goes straight to the object, or to the goal, within 6 steps, or anywhere."""
    random = np.random.default_rng(seed)
    kind = np.arange(count) % 3
    hand, thing, goal = (random.uniform(0.5, 1.0, size=(count, 3)) for _ in range(3))
    target = np.where(kind[:, None] == 0, thing, np.where(kind[:, None] == 1, goal, hand + 1))
    share = np.minimum(np.arange(STEPS + 1) / 6, 1)[None, :, None]
    observation = np.zeros((count, STEPS + 1, 11))
    observation[..., :3] = hand[:, None] * (1 - share) + target[:, None] * share
    observation[..., 3:6], observation[..., 8:] = thing[:, None], goal[:, None]
    by_kind = np.array([[0] * 6 + [1, 2, 2, 3], [4] * 6 + [3] * 4, [5] * 10])
    return Sequences(
        observation=observation,
        action=np.concatenate([np.diff(observation[..., :3], axis=1) * 20, np.zeros((count, STEPS, 1))], -1),
        kind=kind,
        event=by_kind[kind],
        kind_names=KINDS,
        event_names=EVENTS,
        entities=ENTITIES,
        columns={"table_height": np.full(count, 0.4)},
    )


def model_of(seed=0):
    small = {"latent": 4, "memory_hidden": (8,), "initial_hidden": (8,), "skip_shared": (16,)}
    return EventModel(preset(context=3, **small), key=jax.random.key(seed))


# --- Leads ---------------------------------------------------------------------------------------------------------


def test_a_lead_is_the_step_of_the_first_look_minus_that_of_the_events_end():
    over = scene(2)[[0]]
    looked = np.zeros((STEPS, 1, 3))
    looked[:3, 0, 0] = looked[3:, 0, 1] = 1  # the hand, from step 4 on the object, the goal never
    rows = gaze.arrivals_of(looked, over, gaze.CONDITIONS[0])
    assert [row["entity"] for row in rows] == ["hand", "object", "goal"]
    assert {row["end"] for row in rows} == {7.0}
    assert [row["lead"] for row in rows] == [1 - 7, 4 - 7, STEPS - 7]
    assert [row["share"] for row in rows] == [1.0, 1.0, 0.0]


def test_sequences_whose_event_never_ends_are_left_out():
    over = scene()
    looked = np.zeros((STEPS, len(over), 3))
    looked[..., 0] = 1
    point = gaze.arrivals_of(looked, over, gaze.CONDITIONS[3])
    assert {row["count"] for row in point} == {4}
    never = gaze.arrivals_of(looked[:, 2::3], over["stretch"], gaze.CONDITIONS[3])
    assert {(row["count"], row["lead"]) for row in never} == {(0, None)}


def test_all_sequences_are_watched_once_whatever_the_chunk(monkeypatch):
    over, model = scene(10), model_of()
    monkeypatch.setattr(gaze, "CHUNK", 4)
    looked = gaze.focus(model, over, 0.5)
    assert looked.shape == (STEPS, 10, 3)
    np.testing.assert_array_equal(looked[:, :4], gaze.focus(model, over[:4], 0.5))
    np.testing.assert_array_equal(looked, gaze.focus(model, over, 0.5, way=attention.watch_replayed))


# --- The whole study -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of small models, trained for four updates."""
    folder = tmp_path_factory.mktemp("gaze")
    for seed, split in enumerate(("train", "validation", "test")):
        (folder / "data").mkdir(exist_ok=True)
        sequences.save(scene(seed=seed), folder / "data" / f"{split}.safetensors")
    changes = {"updates": 4, "evaluate_every": 2, "batch": 6, "evaluate_on": 6}
    longer = {"updates": 8, "evaluate_every": 4}
    data = str(folder / "data")
    scale = Scale(name="tiny", per_kind=4, seeds=(5, 6), sparsities=(1.0,), gaze_recipe=longer, data=data)
    variants = (
        gaze.Variant("learned", 2.0),
        gaze.Variant("true", 2.0, boundaries="true"),
        gaze.Variant("cue", 2.0, data="cue"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaze, "VARIANTS", variants)
        patch.setattr(gaze, "WHOLE", 8)
        patch.setattr(gaze, "SIZES", preset(latent=4, skip_shared=(16,), memory_hidden=(8,)))
        study = Study(scale, training.recipe("fast", **changes, name="fast"), folder)
        assert gaze.train(study)
        yield study


@pytest.fixture(scope="module")
def tables(study):
    """All that the study gives, through files where it is a table."""
    found = {}
    for function, outputs in gaze.STEPS.values():
        given = function(study)
        assert tuple(given) == outputs
        for name, content in given.items():
            path = study.tables / name
            (write_table if name.endswith(".csv") else write_json)(path, content)
            found[name] = read_table(path) if name.endswith(".csv") else content
    return found


def test_models_are_those_with_a_focus_and_each_has_a_name_of_its_own(study):
    members = [watcher.member for watcher in gaze.watchers(study)]
    assert [member.label for member in members] == [
        f"fast-gaze-{name}_gatel0rd_2_seed{seed}" for name in ("learned", "true", "cue") for seed in (5, 6)
    ]
    assert {member.settings.context for member in members} == {3}
    assert {(member.recipe.updates, member.recipe.sparsity_warmup) for member in members} == {(8, 2)}


def test_shorter_training_has_a_smaller_λ(study):
    half = replace(study.scale, gaze_recipe={"updates": 4})
    shorter, whole = (gaze.watchers(replace(study, scale=scale))[0].member for scale in (half, study.scale))
    assert (shorter.sparsity, whole.sparsity) == (1.0, 2.0)


def test_the_papers_recipe_is_left_as_it_is(study):
    papers = gaze.recipe_of(replace(study, recipe=training.recipe("paper")))
    assert papers == training.recipe("paper", name="paper-gaze", focus_changes=5, focus_noise=0.05)


def test_a_scale_may_want_the_first_variants_only(study):
    fewer = gaze.watchers(replace(study, scale=replace(study.scale, gaze=1)))
    assert {watcher.variant.name for watcher in fewer} == {"learned"}


def test_there_is_a_lead_for_every_model_checkpoint_condition_and_entity(study, tables):
    assert gaze.checkpoints(study) == [0, 4, 8]
    rows = tables["gaze.csv"]
    columns = ("label", "update", "condition", "entity")
    assert len({tuple(row[name] for name in columns) for row in rows}) == len(rows) == 6 * 3 * 4 * 3
    assert {(row["condition"], row["kind"]) for row in rows} == {(one.name, one.kind) for one in gaze.CONDITIONS}
    assert {row["count"] for row in rows} == {4}
    assert all(1 - 7 <= row["lead"] <= STEPS - 7 for row in rows)


def test_untrained_models_look_at_the_next_step_alike_whatever_their_skip_network_will_look_ahead_to(tables):
    by = {
        (row["variant"], row["seed"], row["entity"]): row["lead"]
        for row in tables["gaze.csv"]
        if row["update"] == 0 and row["condition"] == "intra"
    }
    begun = {key[1:]: lead for key, lead in by.items() if key[0] == "learned"}
    assert begun == {key[1:]: lead for key, lead in by.items() if key[0] == "true"}


def test_calibration_is_told_of_both_networks_every_entity_and_dimension(tables):
    rows = tables["gaze_calibration.csv"]
    assert len(rows) == 2 * 2 * 3 * (11 + 11 + 12)
    assert all(row["ratio"] > 0 for row in rows if row["count"])


def test_scaled_variances_are_nearer_to_being_calibrated(tables):
    rows = [row for row in tables["gaze_calibration.csv"] if row["count"] and row["dimension"] != "cue"]
    off = {name: np.mean([abs(np.log(row[name])) for row in rows]) for name in ("ratio", "unscaled")}
    assert off["ratio"] < 0.5 * off["unscaled"]


def test_what_tables_were_made_from_changes_with_a_variants_settings(study, monkeypatch):
    before = gaze.made_from(study)
    assert json.loads(json.dumps(before)) == json.loads(json.dumps(gaze.made_from(study)))
    monkeypatch.setattr(gaze, "VARIANTS", (gaze.Variant("learned", 3.0), *gaze.VARIANTS[1:]))
    assert gaze.made_from(study) != before


# --- Cues and claws ------------------------------------------------------------------------------------------------


def test_a_cue_is_there_at_the_first_step_of_each_new_event_and_nowhere_else():
    plain = scene()
    cued = gaze.with_cue(plain)
    assert cued.observation.shape == (12, STEPS + 1, 12)
    assert cued.observation_names[-1] == "cue"
    np.testing.assert_array_equal(cued.observation[..., :11], plain.observation)
    changed = np.diff(plain.event, axis=1) != 0
    np.testing.assert_array_equal(cued.observation[:, 1:STEPS, 11], np.where(changed, np.float32(gaze.CUE), 0))
    assert not cued.observation[:, [0, STEPS], 11].any()


@pytest.fixture(scope="module")
def real():
    """A few of the real world's reaches, by hand and by claw."""
    return [dataset.scripted_sequences(kind, 8, seed=1, split="test") for kind in (KINDS[0], CLAW)]


def test_a_claw_gets_there_too_along_one_axis_at_a_time(real):
    hand, claw = real
    assert claw.kind_names[claw.kind[0]] == KINDS[0]
    for over in real:
        arrived = attention.first_near(np.swapaxes(over.observation, 0, 1), ENTITIES["hand"], ENTITIES["object"], 0.02)
        assert np.isfinite(arrived).all()
    share = []
    for over in (hand, claw):
        moved = np.abs(np.diff(over.observation[:, :6, :3], axis=1))
        share.append(float(np.mean(moved.max(-1) / moved.sum(-1))))
    assert share[1] > 0.8 > share[0]


def test_claws_take_the_place_of_so_large_a_share_of_reaches(real):
    hand, claw = real
    mixed = gaze.with_claws(hand, claw, 0.25)
    assert len(mixed) == 8
    np.testing.assert_array_equal(mixed.observation[:2], claw.observation[:2])
    np.testing.assert_array_equal(mixed.observation[2:], hand.observation[2:])


def test_claws_are_watched_by_those_that_were_trained_with_some(study, real):
    path = study.out / "gaze-data" / "claws-test.safetensors"
    path.parent.mkdir(exist_ok=True)
    sequences.save(real[1][:4], path)
    shown = gaze.shown_to(study, gaze.Variant("rare", 2.0, data="rare"))
    assert [condition.name for condition, _ in shown] == ["intra", "inter", "both", "point", "claw inter", "claw"]
    np.testing.assert_array_equal(shown[-1][1].observation, real[1][:4].observation)


# --- Gates, examples, speed ----------------------------------------------------------------------------------------


def test_gates_are_looked_at_where_transitions_are(tables):
    rows = tables["gaze_gates.csv"]
    counts = {row["transition"]: row["count"] for row in rows}
    assert counts == {"reach-grasp": 4, "grasp-transport": 4, "transport-hold": 4, "point-hold": 4}
    assert all(0 <= row["recall"] <= 1 and 0 <= row["opening_rate"] <= 1 for row in rows)


def test_examples_show_the_focus_at_every_step(study, tables):
    shown = tables["gaze_examples.json"]
    assert len(shown) == 4 * 3  # of the first seed with its own gates
    first = shown[0]
    assert len(first["focus"]) == len(first["intra"]) == len(first["opening"]) == STEPS
    assert {one["end"] for one in shown} == {7}
    for step, focus in enumerate(first["focus"]):  # of the condition intra
        assert focus == list(ENTITIES)[int(np.argmin(first["intra"][step]))]


def test_an_interrupted_training_says_so(study, monkeypatch):
    monkeypatch.setattr(training, "train", lambda *given, **more: False)
    assert not gaze.train(study)


def test_the_benchmark_times_both_ways_on_the_same_sequences(study):
    numbers = benchmark.benchmark(study.data, sequences=3)
    assert numbers["sequences"] == 3
    assert numbers["replayed_processor_seconds"] > 0
    whole = numbers["carried_seconds"] * 25 * 3_200 / 3 / 60
    assert numbers["minutes_for_25_checkpoints_extrapolated"] == pytest.approx(whole)


def test_every_recipe_that_was_tried_has_a_row_and_the_table_can_be_kept(study, tmp_path, monkeypatch):
    changes = {"updates": 4, "evaluate_every": 2, "evaluate_on": 6, "batch": 6}
    sizes = preset(latent=4, skip_shared=(16,), memory_hidden=(8,))
    tried = {name: (sizes, {**changes, "sparsity_warmup": rise}, (2.0,)) for name, rise in (("soon", 1), ("late", 4))}
    monkeypatch.setattr(gaze_recipes, "VARIANTS", tried)
    monkeypatch.setattr(gaze_recipes, "SEEDS", (5,))
    told = []
    table = gaze_recipes.run(tmp_path / "run", study.data, tell=lambda *at: told.append(at))
    rows = read_table(table)
    assert [(row["recipe"], row["sparsity"], row["seed"]) for row in rows] == [("soon", 2.0, 5), ("late", 2.0, 5)]
    for row in rows:
        assert 1 - 7 <= row["lead_both_hand"] <= STEPS - 7
        assert all(0 <= row[name] <= 1 for name in row if name.startswith(("recall", "openings", "calibrated")))
    assert told[-1] == ("gaze-recipes.csv", 2, 2)
    kept = recipes.keep(table, tmp_path / "results")
    assert kept == tmp_path / "results" / "gaze-recipes" / "gaze-recipes.csv"
    assert kept.read_text() == table.read_text()
    made = json.loads((kept.parent / "provenance.json").read_text())
    assert (made["seeds"], made["updates"]) == ([5], 4)


def test_what_was_tried_is_told_apart_by_its_name():
    labels = [member.label for member in gaze_recipes.members()]
    assert len(set(labels)) == len(labels) == 3 * (7 + 8)


def test_conditions_are_the_papers():
    weights = {one.name: (one.kind, one.intra) for one in gaze.CONDITIONS}
    assert weights == {
        "intra": ("reach-grasp-transport", 1.0),
        "inter": ("reach-grasp-transport", 0.0),
        "both": ("reach-grasp-transport", 0.5),
        "point": ("point", 0.5),
    }
