"""The authors' folders, as NumPy writes them."""

import numpy as np
import pytest

from saccade import formats
from saccade.checks import FileError
from saccade.formats import original

PICKED = [0, 1, 2, 3, 4, 5, 9, 10, 28, 29, 30]


def rollouts(count=5, time=50, seed=0):
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(count, time + 1, 31))
    return {"obs": whole[:, :-1], "next_obs": whole[:, 1:], "actions": rng.uniform(-1, 1, (count, time, 4))}


def publish(folder, arrays):
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


@pytest.mark.parametrize("length", [25, 2, 50])
def test_all_folders_are_read_with_their_kinds(tmp_path, length):
    parts = {name: rollouts(seed=seed) for seed, name in enumerate(("grasp", "point", "stretch"))}
    for name, arrays in parts.items():
        publish(tmp_path / name, arrays)
    found = formats.read(tmp_path) if length == 25 else formats.read(tmp_path, length=length)
    assert found.kind_names == ("reach", "point", "stretch")
    assert found.kind.tolist() == 5 * [0] + 5 * [1] + 5 * [2]
    for kind, arrays in zip(found.kind_names, parts.values(), strict=True):
        assert np.array_equal(found[kind].observation[:, :-1], arrays["obs"][:, :length, PICKED].astype("f4"))
        assert np.array_equal(found[kind].observation[:, 1:], arrays["next_obs"][:, :length, PICKED].astype("f4"))
        assert np.array_equal(found[kind].action, arrays["actions"][:, :length].astype("f4"))
    assert found.entities["goal"] == (8, 9, 10)
    assert found.observation_names[6:9] == ("finger_right", "finger_left", "goal_x")


def test_grasp_alone_is_enough(tmp_path):
    publish(tmp_path / "apex" / "grasp", rollouts())
    assert formats.read(tmp_path / "apex").kind_names == ("reach",)
    assert len(formats.read(tmp_path / "apex" / "grasp")) == 5


def changed(name, change):
    arrays = {key: np.array(value) for key, value in rollouts().items()}
    arrays[name] = change(arrays[name])
    return arrays


def poisoned(array):
    array[2, 3, 4] = np.nan
    return array


BROKEN = {
    "NaN": (
        changed("obs", poisoned),
        "observation holds NaN or infinite values, the first in sequence 2, step 3, object_y",
    ),
    "counts": (changed("actions", lambda array: array[1:]), "actions have shape"),
    "lengths": (changed("next_obs", lambda array: array[:, :40]), "next_obs is float64 of shape"),
    "dimensions": (changed("obs", lambda array: array[..., :28]), r"wanted numbers of shape \(count, time, 31\)"),
    "actions": (changed("actions", lambda array: array[..., :3]), "actions have shape"),
    "short": ({name: array[:, :20] for name, array in rollouts().items()}, "length=25"),
    "shuffled": (changed("obs", lambda array: array[::-1]), "differs by .* m from the obs of the next step"),
    "texts": (changed("obs", lambda array: array.astype(str)), "wanted numbers"),
    "missing": (
        {name: array for name, array in rollouts().items() if name != "actions"},
        r"actions\.npy does not exist",
    ),
}


@pytest.mark.parametrize(("arrays", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_folders_are_named_in_one_line(tmp_path, arrays, message):
    publish(tmp_path / "grasp", arrays)
    with pytest.raises(FileError, match=message) as caught:
        original.read(tmp_path)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_arrays_cut_short_are_named(tmp_path):
    publish(tmp_path / "grasp", rollouts())
    path = tmp_path / "grasp" / "obs.npy"
    content = path.read_bytes()
    for size in (0, 5, 60, 100, 130, 5000, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FileError, match="grasp"):
            original.read(tmp_path)


def test_a_folder_without_them_says_what_is_wanted(tmp_path):
    with pytest.raises(FileError, match="none of the folders grasp, point, stretch"):
        original.read(tmp_path)
    with pytest.raises(FileError, match="is no folder"):
        original.read(tmp_path / "nothing")
