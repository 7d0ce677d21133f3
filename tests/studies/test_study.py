"""What the studies share: models over sequences, marks in time, tables in files, and stages that are remembered."""

import json
from dataclasses import replace

import numpy as np
import pytest

from saccade import EventModel, events, preset, training
from saccade.checks import FileError, InputError
from saccade.sequences import Sequences
from saccade.studies import study
from saccade.studies.study import SCALES, Study, ahead, begin, each, near, observe

TIME, COUNT = 6, 10


@pytest.fixture(scope="module")
def model():
    import jax

    sizes = {"memory_hidden": (8,), "initial_hidden": (8,), "forward_shared": (8,), "inverse_shared": (8,)}
    return EventModel(preset(observation=3, action=2, latent=4, skip_shared=(8,), **sizes), key=jax.random.key(1))


@pytest.fixture(scope="module")
def over():
    rng = np.random.default_rng(0)
    kind = np.arange(COUNT) % 2
    return Sequences(
        rng.normal(size=(COUNT, TIME + 1, 3)), rng.normal(size=(COUNT, TIME, 2)), kind=kind, kind_names=("a", "b")
    )


# --- Models over sequences -----------------------------------------------------------------------------------------


def test_models_see_the_same_whether_sequences_come_at_once_or_in_pieces(model, over, monkeypatch):
    whole = observe(model, over), ahead(model, over, (1, 3))
    monkeypatch.setattr(study, "CHUNK", 4)  # the last piece is filled up
    pieces = observe(model, over), ahead(model, over, (1, 3))
    assert whole[0].latent.shape == (TIME, COUNT, 4)
    assert whole[1].mean.shape == (2, COUNT, 3)
    for one, other in zip((*whole[0], *whole[1]), (*pieces[0], *pieces[1]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_what_comes_true_is_the_observation_at_the_next_boundary(model, over):
    seen, said = observe(model, over), ahead(model, over, (2,))
    for number in range(COUNT):
        later = [step for step in range(2, TIME) if seen.opening[step, number]]
        row = later[0] if later else TIME - 1
        np.testing.assert_allclose(said.target[0, number], over.observation[number, row], atol=1e-6)


@pytest.mark.parametrize("steps", [(), (0,), (1, TIME)])
def test_only_steps_that_something_follows_can_be_looked_ahead_from(model, over, steps):
    with pytest.raises(InputError, match=f"wanted some from 1 to {TIME - 1}"):
        ahead(model, over, steps)


def test_the_first_step_never_counts_as_a_boundary(model, over):
    seen = observe(model, over)
    assert not seen.openings[0].any()
    assert not seen.episodes[0].any()
    assert np.array_equal(seen.openings[1:], seen.opening[1:])
    episodes = events.episodes(seen.opening, seen.strength)
    assert np.array_equal(seen.episodes[1:], episodes[1:])


def test_near_is_within_the_tolerance_on_either_side():
    marked = np.array([0, 0, 1, 0, 0, 0, 0, 1], bool)[:, None]
    assert near(marked)[:, 0].astype(int).tolist() == [0, 1, 1, 1, 0, 0, 1, 1]
    assert near(marked, 2)[:, 0].astype(int).tolist() == [1, 1, 1, 1, 1, 1, 1, 1]
    assert marked.sum() == 2  # what was given stays as it was


# --- Many at once --------------------------------------------------------------------------------------------------


def test_each_gives_results_in_order_and_tells_how_many_are_done():
    told = []
    assert each(lambda item: item**2, range(5), "squares", lambda *at: told.append(at)) == [0, 1, 4, 9, 16]
    assert sorted(told) == [("squares", done, 5) for done in range(1, 6)]


def test_a_mistake_in_one_item_stops_all():
    done = []

    def work(item):
        if item == 1:
            raise InputError("no")
        done.append(item)

    with pytest.raises(InputError, match="no"):
        each(work, range(100), "work")
    assert len(done) < 99


# --- Settings ------------------------------------------------------------------------------------------------------


def test_every_scale_is_complete_and_they_grow():
    begun = {name: begin(name, "fast") for name in SCALES}
    work = [len(one.members) * one.recipe.updates for one in begun.values()]
    assert work == sorted(work)
    full = begun["full"]
    assert full.scale.seeds == tuple(range(5, 15))
    assert full.scale.sparsities == (0.0, 0.1, 1.0, 5.0)
    assert full.recipe == training.recipe("fast")
    assert len(full.gated) == 40
    assert len(full.shown) == 10
    assert str(full.out) == "runs/full-fast"
    assert str(full.data) == "data"
    assert {one.settings.memory for one in begun["demo"].members} == {"gatel0rd"}


def test_a_curve_has_the_first_and_last_update_and_no_more_points_than_wanted(tmp_path):
    full = begin("full", "fast", tmp_path)
    assert full.curve == tuple(range(0, 20_001, 500))
    few = replace(full, scale=replace(full.scale, curve_points=3))
    assert few.curve == (0, 10_000, 20_000)
    odd = replace(full, recipe=replace(full.recipe, updates=1_200))
    assert odd.curve == (0, 500, 1_000, 1_200)


def test_what_cannot_be_studied_is_refused(tmp_path):
    with pytest.raises(InputError, match="scale 'huge' is unknown: choose one of demo, full, quick, smoke"):
        begin("huge", "fast")
    with pytest.raises(InputError, match="recipe 'slow' is unknown"):
        begin("quick", "slow")
    with pytest.raises(InputError, match="wanted 1 among them"):
        begin(replace(SCALES["quick"], sparsities=(0.1,)), "fast")


# --- Stages --------------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path) -> Study:
    begun = begin("smoke", "fast", tmp_path)
    study.write_table(begun.tables / "a.csv", [{"x": 1}])
    begun.record("a", {"seeds": (5, 6)}, [begun.tables / "a.csv"], 1.0)
    return begun


def test_a_stage_is_done_as_long_as_its_settings_and_outputs_are_the_same(begun):
    assert begun.is_done("a", {"seeds": (5, 6)})
    assert begun.is_done("a", {"seeds": [5, 6]})  # as JSON has it
    assert not begun.is_done("a", {"seeds": (5, 7)})
    assert not begun.is_done("b", {"seeds": (5, 6)})
    (begun.tables / "a.csv").unlink()
    assert not begun.is_done("a", {"seeds": (5, 6)})


def test_stages_are_still_known_after_the_folder_was_moved(begun, tmp_path_factory):
    place = tmp_path_factory.mktemp("elsewhere") / "moved"
    begun.out.rename(place)
    assert replace(begun, out=place).is_done("a", {"seeds": (5, 6)})


# --- Files ---------------------------------------------------------------------------------------------------------


def test_tables_come_back_as_they_were_written(tmp_path):
    rows = [
        {"name": "a-b", "count": 3, "value": 0.125, "none": None},
        {"name": "b", "count": 4, "value": 1e-7, "none": None},
    ]
    study.write_table(tmp_path / "new" / "t.csv", rows)
    assert study.read_table(tmp_path / "new" / "t.csv") == rows


def test_what_is_not_a_number_is_left_empty(tmp_path):
    study.write_table(tmp_path / "t.csv", [{"a": float("nan"), "b": np.float32("inf"), "c": 1 / 3}])
    assert (tmp_path / "t.csv").read_text() == "a,b,c\n,,0.333333\n"
    assert study.read_table(tmp_path / "t.csv") == [{"a": None, "b": None, "c": 0.333333}]


def test_files_that_cannot_be_read_say_what_to_do(tmp_path):
    with pytest.raises(FileError, match="does not exist: make it with `saccade reproduce`"):
        study.read_json(tmp_path / "none.json")
    (tmp_path / "half.json").write_text(json.dumps({"a": 1})[:-1])
    with pytest.raises(FileError, match="cannot be read"):
        study.read_json(tmp_path / "half.json")
    with pytest.raises(FileError, match="cannot be read"):
        study.read_table(tmp_path / "none.csv")


def test_a_checksum_notices_content_and_names_but_not_order(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a"), other.write_text("b")
    before = study.checksum([one, other])
    assert study.checksum([other, one]) == before
    other.write_text("c")
    assert study.checksum([one, other]) != before
    assert study.checksum([one]) != before
