"""HDF5 files in robomimic's layout, written by h5py."""

import json

import h5py
import numpy as np
import pytest

from saccade import formats
from saccade.checks import FileError
from saccade.formats import robomimic


def demonstrations(path, lengths=(4, 7), *, next_obs=True, change=None):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = sum(lengths)
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "env_type": 1, "env_kwargs": {}})
        for number, length in enumerate(lengths):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            demo.attrs["model_file"] = "<mujoco/>"
            demo["actions"] = rng.normal(size=(length, 7))
            demo["states"] = rng.normal(size=(length, 20))
            demo["rewards"], demo["dones"] = np.zeros(length), np.zeros(length, int)
            whole = {"eef_pos": rng.normal(size=(length + 1, 3)), "object": rng.normal(size=(length + 1, 10))}
            for key, part in whole.items():
                demo[f"obs/{key}"] = part[:-1]
                if next_obs:
                    demo[f"next_obs/{key}"] = part[1:]
            demo["obs/agentview_image"] = np.zeros((length, 8, 8, 3), np.uint8)
        file["mask/train"] = np.array([b"demo_1"])
        if change:
            change(data)
    return path


def test_all_vectors_are_read_with_what_followed_the_last_action(tmp_path):
    path = demonstrations(tmp_path / "a.hdf5")
    found = formats.read(path)
    assert found.lengths.tolist() == [4, 7]
    assert found.entities == {"eef_pos": (0, 1, 2), "object": tuple(range(3, 13))}
    with h5py.File(path) as file:
        demo = file["data/demo_1"]
        assert np.array_equal(found.action[1], demo["actions"][:].astype("f4"))
        assert np.array_equal(found.observation[1, :7, 3:], demo["obs/object"][:].astype("f4"))
        assert np.array_equal(found.observation[1, 7, :3], demo["next_obs/eef_pos"][-1].astype("f4"))
    assert json.loads(found.origin["environment"])["env_name"] == "Lift"


def test_without_next_obs_the_last_action_is_dropped(tmp_path):
    found = robomimic.read(demonstrations(tmp_path / "a.hdf5", next_obs=False))
    assert found.lengths.tolist() == [3, 6]


def test_keys_and_subsets_can_be_chosen(tmp_path):
    path = demonstrations(tmp_path / "a.hdf5")
    assert robomimic.read(path, keys=["eef_pos"]).entities == {"eef_pos": (0, 1, 2)}
    assert robomimic.read(path, subset="train").lengths.tolist() == [7]
    with pytest.raises(FileError, match="no subset 'valid': choose from train"):
        robomimic.read(path, subset="valid")
    with pytest.raises(FileError, match="no vector 'agentview_image': choose from eef_pos, object"):
        robomimic.read(path, keys=["agentview_image"])


def test_demonstrations_come_in_the_order_of_their_numbers(tmp_path):
    lengths = tuple(range(3, 15))
    assert robomimic.read(demonstrations(tmp_path / "a.hdf5", lengths)).lengths.tolist() == list(lengths)


def test_what_we_write_has_robomimics_layout(tmp_path, example):
    whole = example()
    robomimic.write(whole, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert file["data"].attrs["total"] == whole.lengths.sum()
        assert json.loads(file["data"].attrs["env_args"]).keys() == {"env_name", "env_type", "env_kwargs"}
        assert len(file["data"]) == len(whole)
        demo = file["data/demo_2"]
        length = whole.length[2]
        assert demo.attrs["num_samples"] == length
        assert demo["actions"].shape == (length, 2)
        assert np.array_equal(demo["obs/observation"][1:], demo["next_obs/observation"][:-1])
        assert demo["rewards"].shape == demo["dones"].shape == (length,)
        assert demo["dones"][:].tolist() == [False] * (length - 1) + [True]
    robomimic.write(whole, tmp_path / "b.hdf5")
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()


def replaced(name, value):
    def change(data):
        del data[name]
        if value is not None:
            data[name] = value

    return change


def renamed(data):
    data.move("demo_0", "demo_x")


BROKEN = {
    "NaN": (replaced("demo_0/actions", np.full((4, 7), np.nan)), "action holds NaN"),
    "no actions": (replaced("demo_0/actions", None), "actions"),
    "rank": (replaced("demo_0/actions", np.zeros(4)), "actions of demo_0 have shape"),
    "lengths": (replaced("demo_1/obs/object", np.zeros((6, 10))), "observation of episode 1 has shapes"),
    "width": (replaced("demo_1/obs/object", np.zeros((7, 9))), ""),
    "samples": (lambda data: data["demo_0"].attrs.update(num_samples=5), "demo_0 has 4 actions: wanted 5"),
    "no obs": (replaced("demo_0/obs", None), "demo_0 has no group 'obs'"),
    "key missing": (replaced("demo_0/next_obs/object", None), "demo_0/next_obs has no vector 'object'"),
    "key missing in one": (replaced("demo_1/obs/object", None), "observation of episode 1"),
    "few": (lambda data: [data.__delitem__(name) for name in list(data)], "no demonstrations"),
    "name": (renamed, "demo_x"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_named_in_one_line(tmp_path, change, message):
    path = demonstrations(tmp_path / "a.hdf5", change=change)
    with pytest.raises(FileError, match=rf"a\.hdf5.*{message}") as caught:
        robomimic.read(path)
    assert "\n" not in str(caught.value)


def test_another_hdf5_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(FileError, match="no group 'data' but x"):
        formats.read(tmp_path / "a.h5")
