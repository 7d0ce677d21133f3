"""What Sequences promise: checked on being made, cut and joined without loss, whole on disk or not there at all."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import saccade.sequences as sq
from saccade.checks import FileError, InputError
from saccade.sequences import Sequences


def example(count=12, time=6, *, ragged=False, seed=0, **changes):
    rng = np.random.default_rng(seed)
    fields = {
        "observation": rng.normal(size=(count, time + 1, 5)),
        "action": rng.normal(size=(count, time, 2)),
        "context": rng.normal(size=(count, time, 3)),
        "event": rng.integers(-1, 3, (count, time)),
        "event_names": ("come", "take", "go"),
        "kind": np.arange(count) % 3,
        "kind_names": ("reach", "point", "stretch"),
        "length": rng.integers(2, time + 1, count) if ragged else None,
        "columns": {"table_height": rng.normal(size=count)},
        "observation_names": ("hand_x", "hand_y", "object_x", "object_y", "finger"),
        "observation_units": ("m", "m", "m", "m", ""),
        "entities": {"object": (2, 3), "hand": (0, 1)},
        "origin": {"seed": seed, "settings": {"noise": 0.05}, "versions": ["1", "2"]},
    }
    return Sequences(**{**fields, **changes})


def same(a, b, *, origin=True):
    """Raises unless both hold the same, padding apart."""
    assert a.arrays().keys() - {"length"} == b.arrays().keys() - {"length"}
    assert np.array_equal(a.lengths, b.lengths)
    about, other = a.about(), b.about()
    assert all(about[name] == other[name] for name in about if origin or name != "origin")
    for name, array in a.arrays().items():
        if name == "observation":
            exists = np.arange(a.time + 1) <= a.lengths[:, None]
        elif array.ndim > 1:
            exists = a.mask
        else:
            exists = slice(None)
        if name != "length":
            np.testing.assert_array_equal(array[exists], b.arrays()[name][exists], err_msg=name)
    return True


# --- Making them ---------------------------------------------------------------------------------------------------


def test_arrays_take_the_promised_types():
    made = example(ragged=True)
    types = {name: array.dtype.name for name, array in made.arrays().items()}
    assert types == {
        **dict.fromkeys(("observation", "action", "context"), "float32"),
        "length": "int32",
        "event": "int16",
        "kind": "int8",
        "column.table_height": "float64",
    }
    assert example(event=np.zeros((12, 6), np.int8)).event.dtype == np.int8


def test_names_are_made_up_where_none_are_given():
    bare = Sequences(np.zeros((2, 4, 3)), np.zeros((2, 3, 0)), event=np.array([[0, 1, 2], [2, 2, 2]]))
    assert bare.observation_names == ("observation_0", "observation_1", "observation_2")
    assert bare.observation_units == ("", "", "")
    assert bare.action_names == ()
    assert bare.event_names == ("event_0", "event_1", "event_2")


def test_mask_is_true_where_actions_exist():
    made = example(3, 4, length=np.array([2, 4, 3]))
    assert made.mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]
    assert example(3, 4).mask.all()


WRONG = {
    "rank": ({"observation": np.zeros((12, 7))}, "3 axes"),
    "rows": ({"observation": np.zeros((12, 6, 5))}, "one row fewer"),
    "counts": ({"action": np.zeros((11, 6, 2))}, "one row fewer"),
    "context": ({"context": np.zeros((12, 7, 3))}, "context has shape"),
    "event shape": ({"event": np.zeros((12, 7), int)}, "event has shape"),
    "event type": ({"event": np.zeros((12, 6))}, "wanted whole numbers"),
    "event number": ({"event": np.full((12, 6), 3)}, "wanted -1 to 2"),
    "event too large": ({"event": np.full((12, 6), 2**20)}, "wanted numbers from"),
    "kind number": ({"kind": np.full(12, -1)}, "wanted 0 to 2"),
    "kind shape": ({"kind": np.zeros(3, int)}, "kind has shape"),
    "names": ({"observation_names": ("a", "b")}, "5 dimensions but 2 names"),
    "same names": ({"observation_names": ("a", "b", "c", "d", "a")}, "all different"),
    "units": ({"action_units": ("m",)}, "2 dimensions but 1 units"),
    "entity": ({"entities": {"hand": (0, 5)}}, "wanted some of 0 to 4"),
    "column": ({"columns": {"height": np.zeros(3)}}, "column 'height' has shape"),
    "column value": ({"columns": {"height": np.full(12, np.nan)}}, "NaN"),
    "short": ({"length": np.array([1] + 11 * [6])}, "sequence 0 has length 1: wanted 2 to 6"),
    "long": ({"length": np.array(11 * [6] + [7])}, "sequence 11 has length 7"),
    "texts": ({"observation": np.full((12, 7, 5), "a")}, "wanted numbers"),
    "objects": ({"observation": np.full((12, 7, 5), None)}, "wanted numbers"),
    "too large for float32": ({"observation": np.full((12, 7, 5), 1e300)}, "NaN or infinite"),
    "origin": ({"origin": {"a": object()}}, "JSON"),
    "origin NaN": ({"origin": {"a": float("nan")}}, "JSON"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        example(**changes)
    assert "\n" not in str(caught.value)
    assert "wanted" in str(caught.value)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        ((0, 4, 3), (0, 3, 2), "at least one"),
        ((2, 4, 0), (2, 3, 2), "at least one"),
        ((2, 2, 3), (2, 1, 2), "at least 3"),
    ],
)
def test_nothing_is_not_enough(observation, action, message):
    with pytest.raises(InputError, match=message):
        Sequences(np.zeros(observation), np.zeros(action))


@pytest.mark.parametrize("name", ["observation", "action", "context"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_is_refused_where_a_step_exists_and_allowed_in_padding(name, value):
    length = np.full(12, 4)
    array = np.array(getattr(example(), name))
    last = 4 if name == "observation" else 3
    array[3, last + 1, 1] = value
    example(length=length, **{name: array})
    array[3, last, 1] = value
    with pytest.raises(InputError, match=f"{name} holds NaN or infinite values, the first in sequence 3, step {last}"):
        example(length=length, **{name: array})


def test_episodes_of_unequal_length_are_padded():
    rng = np.random.default_rng(0)
    lengths = (4, 2, 5)
    observations = [rng.normal(size=(length + 1, 3)).astype("f4") for length in lengths]
    actions = [rng.normal(size=(length, 2)).astype("f4") for length in lengths]
    events = [np.arange(length) for length in lengths]
    made = sq.from_episodes(observations, actions, events=events)
    assert made.length.tolist() == list(lengths)
    assert made.event[1].tolist() == [0, 1, -1, -1, -1]
    for index, length in enumerate(lengths):
        assert np.array_equal(made.observation[index, : length + 1], observations[index])
        assert np.array_equal(made.action[index, :length], actions[index])
    with pytest.raises(InputError, match="observation of episode 1 has shape"):
        sq.from_episodes([observations[0], observations[0]], actions[:2])


# --- Choosing, dividing, joining -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        (slice(2, 9, 3), [2, 5, 8]),
        (np.array([7, 1, 1, -1]), [7, 1, 1, 11]),
        ([3, 2], [3, 2]),
        (np.arange(12) > 9, [10, 11]),
        ("point", [1, 4, 7, 10]),
        (4, [4]),
    ],
)
def test_choosing_takes_every_array_along(index, wanted):
    whole = example(ragged=True)
    chosen = whole[index]
    for name, array in whole.arrays().items():
        assert np.array_equal(chosen.arrays()[name], array[wanted]), name
    assert chosen.about() == whole.about()


@pytest.mark.parametrize(
    "index",
    [slice(0, 0), [], np.array([12]), np.array([-13]), "dance", np.ones(3, bool), np.zeros(12, bool), np.ones(2)],
)
def test_a_choice_that_makes_no_sense_is_refused(index):
    with pytest.raises(InputError, match=r"wanted|choose|there are 12"):
        example()[index]


def test_iterating_gives_one_sequence_at_a_time():
    whole = example()
    assert [one.columns["table_height"][0] for one in whole] == whole.columns["table_height"].tolist()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(0, 9), st.integers(1, 3))
def test_split_gives_disjoint_parts_with_all_kinds_in_proportion(counts, seed, kinds):
    count = sum(counts) + seed
    rng = np.random.default_rng(seed)
    whole = example(count, 2, kind=rng.integers(0, kinds, count), columns={"number": np.arange(count)})
    parts = sq.split(whole, *counts, seed=seed)
    numbers = [part.columns["number"].astype(int).tolist() for part in parts]
    assert [len(one) for one in numbers] == counts
    assert len({number for one in numbers for number in one}) == sum(counts)
    assert all(one == sorted(one) for one in numbers)
    share = np.bincount(whole.kind, minlength=kinds) / count
    for part in parts:
        assert (np.abs(np.bincount(part.kind, minlength=kinds) - share * len(part)) <= kinds + 1).all()


def test_split_of_equal_kinds_is_exact_and_depends_on_the_seed_alone():
    whole = example(30, 2, columns={"number": np.arange(30)})
    train, validation, test = sq.split(whole, 0.6, 0.2, 0.2)
    assert [np.bincount(part.kind).tolist() for part in (train, validation, test)] == [[6, 6, 6], [2, 2, 2], [2, 2, 2]]
    assert same(train, sq.split(whole, 18, 6, 6)[0], origin=False)
    assert train.columns["number"].tolist() != sq.split(whole, 18, 6, 6, seed=43)[0].columns["number"].tolist()
    assert validation.origin["split"]["part"] == 1
    assert validation.origin["seed"] == 0


@pytest.mark.parametrize("parts", [(), (0.5, 0.6), (13,), (0.0, 0.5), (-1, 2), (0.01, 0.9)])
def test_split_into_impossible_parts_is_refused(parts):
    with pytest.raises(InputError):
        sq.split(example(), *parts)


def test_dimensions_are_selected_by_name_number_and_entity():
    whole = example()
    fewer = sq.select(whole, observation=["finger", "object", 0], action=[1], context=[])
    assert fewer.observation_names == ("finger", "object_x", "object_y", "hand_x")
    assert fewer.observation_units == ("", "m", "m", "m")
    assert fewer.entities == {"object": (1, 2)}
    assert np.array_equal(fewer.observation, whole.observation[..., [4, 2, 3, 0]])
    assert np.array_equal(fewer.action, whole.action[..., [1]])
    assert fewer.context is None
    assert fewer.context_names == ()
    for wrong in (["head"], [5], ["hand", "hand_x"]):
        with pytest.raises(InputError):
            sq.select(whole, observation=wrong)


def test_concatenate_pads_and_matches_kinds_and_events_by_name():
    one = example(4, 6)
    other = example(3, 4, seed=1, event_names=("go", "come", "rest"), kind_names=("point", "stretch", "reach"))
    both = sq.concatenate([one, other])
    assert both.lengths.tolist() == [6, 6, 6, 6, 4, 4, 4]
    assert both.event_names == ("come", "take", "go", "rest")
    assert [both.kind_names[index] for index in both.kind[4:]] == ["point", "stretch", "reach"]
    named = {-1: None, 0: "go", 1: "come", 2: "rest"}
    back = dict(enumerate(both.event_names)) | {-1: None}
    assert np.vectorize(back.get)(both.event[4:, :4]).tolist() == np.vectorize(named.get)(other.event).tolist()
    assert np.array_equal(both.observation[4:, :5], other.observation)
    assert both.columns["table_height"].tolist() == [*one.columns["table_height"], *other.columns["table_height"]]
    assert both.origin == {"concatenated": [one.origin, other.origin]}
    assert sq.concatenate([one, one]).origin == one.origin


@pytest.mark.parametrize(
    "changes",
    [
        {"observation_names": ("a", "b", "c", "d", "e")},
        {"action_units": ("m", "m")},
        {"entities": {}},
        {"context": None},
        {"columns": {}},
        {"event": None},
    ],
)
def test_parts_that_do_not_agree_are_not_joined(changes):
    with pytest.raises(InputError, match="part 1"):
        sq.concatenate([example(), example(**changes)])


# --- For models ----------------------------------------------------------------------------------------------------


def test_a_batch_is_time_major_with_zeros_in_padding():
    whole = example(ragged=True)
    whole.observation[~np.pad(whole.mask, ((0, 0), (1, 0)), constant_values=True)] = np.nan
    got = sq.batch(whole, [3, 8])
    assert got.observation.shape == got.next_observation.shape == (6, 2, 5)
    assert got.action.shape == (6, 2, 2)
    assert got.context.shape == (6, 2, 3)
    assert np.array_equal(got.mask, whole.mask[[3, 8]].T)
    for row, number in enumerate((3, 8)):
        length = whole.length[number]
        assert np.array_equal(got.observation[:length, row], whole.observation[number, :length])
        assert np.array_equal(got.next_observation[:length, row], whole.observation[number, 1 : length + 1])
        assert np.array_equal(got.action[:length, row], whole.action[number, :length])
        assert not got.observation[length:, row].any()
        assert not got.next_observation[length:, row].any()
    full = sq.batch(example(context=None))
    assert full.mask is None
    assert full.context is None
    assert full.observation.shape == (6, 12, 5)


def test_batches_cover_everything_once():
    whole = example(13, 2)
    in_order = np.concatenate([one.action for one in sq.batches(whole, 5)], axis=1)
    assert np.array_equal(in_order, np.swapaxes(whole.action, 0, 1))
    shuffled = [one.action for one in sq.batches(whole, 5, seed=1)]
    assert [one.shape[1] for one in shuffled] == [5, 5, 3]
    together = np.concatenate(shuffled, axis=1)
    assert not np.array_equal(together, in_order)
    assert np.array_equal(np.sort(together, axis=None), np.sort(in_order, axis=None))
    assert [one.action.shape[1] for one in sq.batches(whole, 5, drop_last=True)] == [5, 5]
    again = [one.action for one in sq.batches(whole, 5, seed=1)]
    assert all(np.array_equal(a, b) for a, b in zip(shuffled, again, strict=True))


def test_balanced_batches_have_every_kind_alike():
    kind = np.array([0] * 10 + [1] * 4 + [2] * 6)
    whole = example(20, 2, kind=kind, action=np.broadcast_to(kind[:, None, None], (20, 2, 2)))
    got = [np.bincount(one.action[0, :, 0].astype(int)).tolist() for one in sq.batches(whole, 6, seed=0, balanced=True)]
    assert got == [[2, 2, 2], [2, 2, 2]]
    with pytest.raises(InputError, match="multiple of 3"):
        next(sq.batches(whole, 5, balanced=True))
    with pytest.raises(InputError, match="no kinds"):
        next(sq.batches(example(kind=None), 6, balanced=True))


@pytest.mark.parametrize("ragged", [False, True])
def test_standardising_gives_mean_0_and_deviation_1_and_can_be_undone(ragged):
    rng = np.random.default_rng(3)
    observation = rng.normal(1000, [1e-2, 1, 5, 1, 0], (12, 7, 5))
    whole = example(ragged=ragged, observation=observation)
    if ragged:  # what stands in padding must not matter
        whole.observation[~np.pad(whole.mask, ((0, 0), (1, 0)), constant_values=True)] = 1e9
    scaling = sq.standardise(whole)
    scaled = scaling.apply(whole)
    rows = scaled.observation[np.arange(7) <= whole.lengths[:, None]]
    np.testing.assert_allclose(rows.mean(0), 0, atol=5e-3)
    np.testing.assert_allclose(rows.std(0)[:4], 1, rtol=1e-2)
    assert not rows[:, 4].any()
    assert scaling.observation_scale[4] == 1
    actions = scaled.action[whole.mask]
    np.testing.assert_allclose(actions.std(0), 1, rtol=1e-5)
    assert np.array_equal(scaled.context, whole.context)
    back = scaling.undo(scaled)
    np.testing.assert_allclose(back.observation, whole.observation, rtol=1e-6)
    assert back.about() == whole.about()
    assert scaled.observation_units == ("sd",) * 5


def test_a_scaling_goes_through_json():
    scaling = sq.standardise(example())
    assert sq.Scaling(**json.loads(json.dumps(asdict(scaling)))) == scaling


def test_a_scaling_is_applied_once_and_only_to_what_it_fits():
    scaling = sq.standardise(example())
    with pytest.raises(InputError, match="standardised already"):
        scaling.apply(scaling.apply(example()))
    with pytest.raises(InputError, match="was fitted to 5"):
        scaling.apply(sq.select(example(), observation=["hand"]))


# --- What is inside ------------------------------------------------------------------------------------------------


def test_a_summary_counts_what_exists_and_nothing_else():
    length = np.array([2, 4, 3])
    observation = np.zeros((3, 5, 1))
    observation[0, 2], observation[1, 4], observation[2, 4] = -7, 5, 99  # the last in padding
    made = Sequences(
        observation,
        np.ones((3, 4, 1)),
        length=length,
        event=np.array([[0, 1, 1, 1], [0, 0, -1, 1], [1, 1, 1, 0]]),
        event_names=("a", "b"),
        kind=np.array([0, 1, 0]),
        kind_names=("x", "y"),
        columns={"height": np.array([3, 1, 2])},
        origin={"seed": 5},
    )
    found = sq.summarise(made)
    json.dumps(found, allow_nan=False)
    assert (found["sequences"], found["steps"]) == (3, 9)
    assert found["length"] == {"min": 2, "median": 3.0, "max": 4}
    assert found["kinds"] == {"x": 2, "y": 1}
    assert found["events"] == {"x": {"a": 1, "b": 4}, "y": {"a": 2, "b": 1, "unknown": 1}}
    column = found["dimensions"]["observation"]["observation_0"]
    assert (column["min"], column["max"]) == (-7, 5)
    assert column["mean"] == pytest.approx(-2 / 12)
    assert column["deviation"] == pytest.approx(np.std([-7, 5] + 10 * [0]))
    assert found["columns"] == {"height": {"min": 1.0, "max": 3.0}}
    assert (found["nan"], found["infinite"], found["origin"]) == (0, 0, {"seed": 5})


def test_a_summary_counts_nan_in_a_file_that_was_tampered_with(tmp_path):
    path = tmp_path / "a.safetensors"
    sq.save(example(), path)
    with path.open("r+b") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        begin = json.loads(path.read_bytes()[8:start])["observation"]["data_offsets"][0]
        file.seek(start + begin)
        file.write(np.array([np.nan, np.inf], "<f4").tobytes())
    found = sq.summarise(sq.load(path))
    assert (found["nan"], found["infinite"]) == (1, 1)
    assert np.isfinite(found["dimensions"]["observation"]["hand_x"]["mean"])
    with pytest.raises(InputError, match="NaN"):
        sq.save(sq.load(path), tmp_path / "b.safetensors")
    assert not (tmp_path / "b.safetensors").exists()


# --- Files ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(2, 7), st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 99))
def test_saving_and_loading_loses_nothing(count, time, actions, ragged, bare, seed):
    changes = (
        {"context": None, "event": None, "event_names": (), "kind": None, "columns": {}, "entities": {}} if bare else {}
    )
    whole = example(count, time, ragged=ragged, seed=seed, action=np.zeros((count, time, actions)), **changes)
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"saccade-{os.getpid()}.safetensors"
    try:
        sq.save(whole, path, overwrite=True)
        sq.verify(path)
        assert same(whole, sq.load(path))
        assert list(sq.load(path).entities) == list(whole.entities)  # in their order
    finally:
        path.unlink(missing_ok=True)


def test_a_loaded_file_is_mapped_not_read(tmp_path):
    sq.save(example(), tmp_path / "a.safetensors")
    loaded = sq.load(tmp_path / "a.safetensors")
    assert all(isinstance(array, np.memmap) for array in loaded.arrays().values())
    assert isinstance(loaded[2:4].observation, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        loaded.observation[0] = 0


def test_loading_looks_at_no_value(tmp_path, monkeypatch):
    sq.save(example(), tmp_path / "a.safetensors")
    monkeypatch.setattr(sq, "check_values", lambda _: pytest.fail("values were read"))
    sq.load(tmp_path / "a.safetensors")


def test_the_file_is_plain_safetensors(tmp_path):
    whole = example(ragged=True)
    sq.save(whole, tmp_path / "a.safetensors")
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert found.keys() == whole.arrays().keys()
    assert all(np.array_equal(found[name], array) for name, array in whole.arrays().items())


def test_the_same_content_gives_the_same_bytes(tmp_path):
    whole = example()
    sq.save(whole, tmp_path / "a.safetensors")
    sq.save(replace(example(), origin=dict(reversed(whole.origin.items()))), tmp_path / "b.safetensors")
    sq.save(sq.load(tmp_path / "a.safetensors"), tmp_path / "c.safetensors")
    first = (tmp_path / "a.safetensors").read_bytes()
    assert first == (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()
    sq.save(example(origin={"seed": 1}), tmp_path / "d.safetensors")
    assert first != (tmp_path / "d.safetensors").read_bytes()


def test_a_file_says_what_is_in_it_without_being_read(tmp_path):
    sq.save(example(), tmp_path / "a.safetensors")
    about = sq.describe(tmp_path / "a.safetensors")
    assert about["counts"] == {"sequences": 12, "steps": 72}
    assert about["about"]["origin"]["settings"] == {"noise": 0.05}


def test_an_existing_file_is_left_alone_unless_told(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_text("precious")
    with pytest.raises(FileError, match="exists already"):
        sq.save(example(), path)
    assert path.read_text() == "precious"
    sq.save(example(), path, overwrite=True)
    assert same(sq.load(path), example())
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_a_loaded_file_can_be_overwritten_by_what_was_loaded(tmp_path):
    path = tmp_path / "a.safetensors"
    sq.save(example(), path)
    sq.save(sq.load(path), path, overwrite=True)
    sq.verify(path)


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    sq.save(example(), tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    cut = tmp_path / "cut.safetensors"
    for size in [*range(64), *range(64, len(content), 97), len(content) - 1]:
        cut.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"cut\.safetensors"):
            sq.load(cut)
    cut.write_bytes(content + b"\0")
    with pytest.raises(FileError):
        sq.load(cut)


def test_any_changed_byte_is_found_and_a_changed_description_already_on_loading(tmp_path):
    path = tmp_path / "a.safetensors"
    sq.save(example(3, 2), path)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for at in range(0, len(content), 7):
        changed = bytearray(content)
        changed[at] ^= 0x15
        path.write_bytes(changed)
        with pytest.raises(FileError, match=r"a\.safetensors"):
            sq.verify(path)
        if at < len(content[:start].rstrip()):
            with pytest.raises(FileError, match=r"a\.safetensors"):
                sq.load(path)


def test_a_description_rewritten_by_hand_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    sq.save(example(), path)
    content = path.read_bytes()
    assert content.count(b"0.05") == 1
    path.write_bytes(content.replace(b"0.05", b"0.06"))
    with pytest.raises(FileError, match="changed or damaged"):
        sq.load(path)


def test_foreign_files_are_refused_by_name(tmp_path):
    path = tmp_path / "a.safetensors"
    for content in (b"", b"hello", b"\0" * 100, os.urandom(500)):
        path.write_bytes(content)
        with pytest.raises(FileError, match="cut short"):
            sq.load(path)
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with pytest.raises(FileError, match="not written by saccade"):
        sq.load(path)
    safetensors.numpy.save_file(
        {"a": np.zeros(3)}, path, {"saccade": '{"version": 1, "kind": "EventModel", "checksum": ""}'}
    )
    with pytest.raises(FileError, match="EventModel"):
        sq.load(path)
    with pytest.raises(FileError, match="cannot be read"):
        sq.load(tmp_path / "none.safetensors")
    with pytest.raises(FileError):
        sq.load(tmp_path)


def test_another_version_says_to_update(tmp_path, monkeypatch):
    monkeypatch.setattr(sq, "FORMAT_VERSION", 2)
    sq.save(example(), tmp_path / "a.safetensors")
    monkeypatch.undo()
    with pytest.raises(FileError, match="format version 2: this saccade reads version 1"):
        sq.load(tmp_path / "a.safetensors")


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file" / "a.safetensors", tmp_path / "missing" / "a.safetensors"):
        with pytest.raises(FileError, match="cannot be written"):
            sq.save(example(), path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small file system with the given options."""
    places = []

    def mount(options):
        place = tmp_path / f"mounted{len(places)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting a small file system takes root")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


def test_a_full_disk_leaves_nothing_half_made_and_harms_nothing(mounted):
    place = mounted("size=64k")
    sq.save(example(), place / "a.safetensors")
    before = (place / "a.safetensors").read_bytes()
    for name, overwrite in (("b.safetensors", False), ("a.safetensors", True)):
        with pytest.raises(FileError, match="No space left"):
            sq.save(example(2000), place / name, overwrite=overwrite)
        assert os.listdir(place) == ["a.safetensors"]
        assert (place / "a.safetensors").read_bytes() == before


def test_a_read_only_disk_is_named(mounted):
    place = mounted("size=64k,ro")
    with pytest.raises(FileError, match="Read-only"):
        sq.save(example(), place / "a.safetensors")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_a_save_keeps_the_old_file(tmp_path, how):
    path = tmp_path / "a.safetensors"
    sq.save(example(), path)
    before = path.read_bytes()
    program = f"""
        import os, signal, numpy as np, saccade.sequences as sq
        pieces = sq._pieces
        def stopping(array):
            for number, piece in enumerate(pieces(array)):
                yield piece
                if number == 1 and list(os.scandir({str(tmp_path)!r}))[1:]:  # while the second file is being written
                    print("writing", flush=True)
                    os.kill(os.getpid(), {int(how)})
        sq._pieces = stopping
        sq.save(sq.Sequences(np.zeros((20000, 3, 2)), np.zeros((20000, 2, 1))), {str(path)!r}, overwrite=True)
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "writing\n"
    assert path.read_bytes() == before
    if how == signal.SIGINT:  # what is killed outright cannot tidy up after itself
        assert os.listdir(tmp_path) == ["a.safetensors"]
