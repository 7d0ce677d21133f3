"""Where models look: leads against the event's end, and the study from training to its tables."""

from functools import partial

import jax
import numpy as np
import pytest

from saccade import EventModel, attention, preset, sequences, training
from saccade.benchmarks import gaze as benchmark
from saccade.sequences import Sequences
from saccade.studies import gaze
from saccade.studies.study import Scale, Study, read_table, write_json, write_table

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
    np.testing.assert_array_equal(looked, gaze.focus(model, over, 0.5, attention.watch_replayed))


# --- The whole study -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of small models, trained for four updates."""
    folder = tmp_path_factory.mktemp("gaze")
    for seed, split in enumerate(("train", "validation", "test")):
        (folder / "data").mkdir(exist_ok=True)
        sequences.save(scene(seed=seed), folder / "data" / f"{split}.safetensors")
    changes = {"updates": 4, "evaluate_every": 2, "batch": 6, "evaluate_on": 6}
    scale = Scale(name="tiny", per_kind=4, seeds=(5, 6), sparsities=(1.0,), data=str(folder / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaze, "SPARSITIES", (2.0,))
        patch.setattr(gaze, "COMPARED", (("true", 2.0, "true"),))
        patch.setattr(gaze, "preset", partial(preset, latent=4, skip_shared=(16,), memory_hidden=(8,)))
        yield Study(scale, training.recipe("fast", **changes, name="fast"), folder)


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
    labels = [member.label for member in gaze.members(study)]
    assert labels == [f"fast-gaze{part}_gatel0rd_2_seed{seed}" for part in ("", "-true") for seed in (5, 6)]
    assert {member.settings.context for member in gaze.members(study)} == {3}


def test_there_is_a_lead_for_every_model_checkpoint_condition_and_entity(study, tables):
    assert gaze.checkpoints(study) == [0, 2, 4]
    rows = tables["gaze.csv"]
    columns = ("label", "update", "condition", "entity")
    assert len({tuple(row[name] for name in columns) for row in rows}) == len(rows) == 4 * 3 * 4 * 3
    assert {(row["condition"], row["kind"]) for row in rows} == {(one.name, one.kind) for one in gaze.CONDITIONS}
    assert {row["count"] for row in rows} == {4}
    assert all(1 - 7 <= row["lead"] <= STEPS - 7 for row in rows)


def test_the_untrained_models_with_other_boundaries_look_where_the_learned_ones_do(tables):
    by = {
        (row["boundaries"], row["update"], row["seed"], row["condition"], row["entity"]): row["lead"]
        for row in tables["gaze.csv"]
    }
    begun = {key[1:]: lead for key, lead in by.items() if key[0] == "learned" and key[1] == 0}
    assert begun == {key[1:]: lead for key, lead in by.items() if key[0] == "true" and key[1] == 0}


def test_calibration_is_told_of_both_networks_every_entity_and_dimension(tables):
    rows = tables["gaze_calibration.csv"]
    assert len(rows) == 4 * 2 * 3 * 11
    assert all(row["ratio"] > 0 for row in rows if row["count"])


def test_gates_are_looked_at_where_transitions_are(tables):
    rows = tables["gaze_gates.csv"]
    counts = {row["transition"]: row["count"] for row in rows}
    assert counts == {"reach-grasp": 4, "grasp-transport": 4, "transport-hold": 4, "point-hold": 4}
    assert all(0 <= row["recall"] <= 1 and 0 <= row["opening_rate"] <= 1 for row in rows)


def test_examples_show_the_focus_at_every_step(study, tables):
    shown = tables["gaze_examples.json"]
    assert len(shown) == 2 * 4 * 3
    first = shown[0]
    assert len(first["focus"]) == len(first["intra"]) == len(first["opening"]) == STEPS
    for step, focus in enumerate(first["focus"]):  # of the condition intra
        assert focus == list(ENTITIES)[int(np.argmin(first["intra"][step]))]


def test_an_interrupted_training_is_no_table(study, monkeypatch):
    monkeypatch.setattr(training, "train", lambda *given, **more: False)
    with pytest.raises(KeyboardInterrupt):
        gaze.trained(study)


def test_the_benchmark_times_both_ways_on_the_same_sequences(study, monkeypatch):
    monkeypatch.setattr(benchmark, "preset", gaze.preset)
    numbers = benchmark.benchmark(study.data, sequences=3)
    assert numbers["sequences"] == 3
    assert numbers["replayed_processor_seconds"] > 0
    whole = numbers["carried_seconds"] * 25 * 3_200 / 3 / 60
    assert numbers["minutes_for_25_checkpoints_extrapolated"] == pytest.approx(whole)


def test_conditions_are_the_papers():
    weights = {one.name: (one.kind, one.intra) for one in gaze.CONDITIONS}
    assert weights == {
        "intra": ("reach-grasp-transport", 1.0),
        "inter": ("reach-grasp-transport", 0.0),
        "both": ("reach-grasp-transport", 0.5),
        "point": ("point", 0.5),
    }
