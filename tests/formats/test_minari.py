"""Datasets that Minari itself wrote."""

import json

import gymnasium as gym
import minari as library
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from saccade import formats
from saccade.checks import FileError
from saccade.formats import minari

pytestmark = pytest.mark.filterwarnings("ignore")  # the library warns of metadata it would like to have


def box(*shape):
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float64)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Writes episodes by Minari and gives the folder."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def write(observations, actions, space, action_space, data_format="hdf5"):
        episodes = [
            EpisodeBuffer(
                id=number,
                observations=observation,
                actions=action,
                rewards=np.zeros(len(action)).tolist(),
                terminations=[False] * len(action),
                truncations=[False] * (len(action) - 1) + [True],
            )
            for number, (observation, action) in enumerate(zip(observations, actions, strict=True))
        ]
        library.create_dataset_from_buffers(
            "arm/test-v0", episodes, observation_space=space, action_space=action_space, data_format=data_format
        )
        return tmp_path / "arm" / "test-v0"

    return write


def episodes(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_vectors_are_read(dataset, data_format):
    observations, actions = episodes((5, 3), (8, 3)), episodes((4, 2), (7, 2))
    found = formats.read(dataset(observations, actions, box(3), box(2), data_format))
    assert found.lengths.tolist() == [4, 7]
    for index in range(2):
        assert np.array_equal(found.observation[index, : len(observations[index])], observations[index].astype("f4"))
        assert np.array_equal(found.action[index, : len(actions[index])], actions[index].astype("f4"))
    assert found.origin["dataset"] == "arm/test-v0"
    assert found.origin["minari_version"]


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_parts_of_an_observation_become_entities(dataset, data_format):
    space = gym.spaces.Dict({"goal": box(3), "image": box(2, 2), "hand": box(2)})
    given = [dict(zip(("goal", "image", "hand"), episodes((5, 3), (5, 2, 2), (5, 2)), strict=True))]
    path = dataset(given, episodes((4, 2)), space, box(2), data_format)
    found = minari.read(path, keys=["hand", "goal"])
    assert found.entities == {"hand": (0, 1), "goal": (2, 3, 4)}
    assert found.observation_names == ("hand_0", "hand_1", "goal_0", "goal_1", "goal_2")
    assert np.array_equal(found.observation[0, :, 2:], given[0]["goal"].astype("f4"))
    assert minari.read(path).entities.keys() == {"goal", "hand"}
    with pytest.raises(FileError, match="no vector 'image': choose from"):
        minari.read(path, keys=["image"])


def test_what_is_no_vector_is_refused(dataset, tmp_path):
    path = dataset([np.array([0, 1, 2, 1])], episodes((3, 2)), gym.spaces.Discrete(3), box(2))
    with pytest.raises(FileError, match=r"its observations are observation \(4,\): wanted vectors"):
        minari.read(path)


def test_actions_that_are_no_vectors_are_refused(dataset):
    path = dataset(episodes((4, 2)), [np.array([0, 1, 2])], box(2), gym.spaces.Discrete(3))
    with pytest.raises(FileError, match="its actions are int64"):
        minari.read(path)


def test_not_a_number_is_refused(dataset):
    with pytest.raises(FileError, match="observation holds NaN"):
        minari.read(dataset([np.full((4, 2), np.nan)], episodes((3, 2)), box(2), box(2)))


def test_a_dataset_cut_short_is_named(dataset):
    path = dataset(episodes((5, 3)), episodes((4, 2)), box(3), box(2))
    data = path / "data" / "main_data.hdf5"
    content = data.read_bytes()
    for size in (0, 100, len(content) // 2):
        data.write_bytes(content[:size])
        with pytest.raises(FileError, match="test-v0"):
            minari.read(path)
    data.write_bytes(content)
    (path / "data" / "metadata.json").write_text('{"observation')
    with pytest.raises(FileError, match="cannot be read"):
        minari.read(path)
    with pytest.raises(FileError, match="does not exist"):
        minari.read(path / "nothing")


def test_unequal_lengths_are_refused(dataset):
    import h5py

    path = dataset(episodes((5, 3)), episodes((4, 2)), box(3), box(2))
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/actions"].resize((3, 2))
    with pytest.raises(FileError, match="observation of episode 0 has shape"):
        minari.read(path)


def test_a_dataset_cannot_have_an_environment_built(dataset, tmp_path):
    """Without spaces in the file Minari makes the environment it names, which may be any function at all."""
    path = dataset(episodes((5, 3)), episodes((4, 2)), box(3), box(2))
    metadata = path / "data" / "metadata.json"
    about = json.loads(metadata.read_text())
    spec = gym.spec("CartPole-v1")
    spec.entry_point, spec.kwargs = "os:mkdir", {"path": str(tmp_path / "run")}
    about |= {"env_spec": spec.to_json()}
    del about["observation_space"]
    metadata.write_text(json.dumps(about))
    with pytest.raises(Exception, match=r"."):
        library.MinariDataset(path / "data")
    assert (tmp_path / "run").exists(), "the dataset would do nothing anyway"
    (tmp_path / "run").rmdir()
    with pytest.raises(FileError, match="does not say its observation_space"):
        minari.read(path)
    assert not (tmp_path / "run").exists()
