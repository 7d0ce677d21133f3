"""NumPy archives, as NumPy writes them."""

import os

import numpy as np
import pytest

from saccade.checks import FileError
from saccade.formats import npz


def test_an_archive_of_just_observations_and_actions_is_enough(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"observation": rng.normal(size=(4, 6, 3)), "action": rng.normal(size=(4, 5, 2)).astype("f4")}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays, something_else=np.zeros(3))
        found = npz.read(tmp_path / "a.npz")
        assert np.array_equal(found.observation, arrays["observation"].astype("f4"))
        assert np.array_equal(found.action, arrays["action"])
        assert found.origin == {"read_from": "a.npz", "format": "npz"}


def test_the_same_content_gives_the_same_bytes(tmp_path, example):
    npz.write(example(), tmp_path / "a.npz")
    npz.write(example(), tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


GOOD = {"observation": np.zeros((4, 6, 3)), "action": np.zeros((4, 5, 2))}
BROKEN = {
    "missing": (
        {"observation": GOOD["observation"], "actions": GOOD["action"]},
        "no array 'action' but observation, actions",
    ),
    "NaN": ({**GOOD, "action": np.full((4, 5, 2), np.nan)}, "action holds NaN"),
    "lengths": ({**GOOD, "action": np.zeros((4, 6, 2))}, "one row fewer"),
    "rank": ({**GOOD, "action": np.zeros((4, 5))}, "3 axes"),
    "about": ({**GOOD, "about": np.array("{")}, "cannot be read"),
    "names": ({**GOOD, "about": np.array('{"observation_names": ["a"]}')}, "3 dimensions but 1 names"),
    "nonsense": ({**GOOD, "about": np.array('{"colour": 1}')}, "cannot be read"),
}


@pytest.mark.parametrize(("arrays", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_archives_are_named_in_one_line(tmp_path, untyped, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(FileError, match=rf"a\.npz.*{message}") as caught:
        npz.read(tmp_path / "a.npz")
    assert "\n" not in str(caught.value)


def test_a_pickle_inside_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    np.savez(tmp_path / "a.npz", observation=np.array([Evil()], object), action=np.zeros(3))
    with pytest.raises(FileError, match=r"a\.npz"):
        npz.read(tmp_path / "a.npz")
    assert not (tmp_path / "run").exists()


def test_a_single_array_is_no_archive(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(FileError, match="single array"):
        npz.read(tmp_path / "a.npz")
