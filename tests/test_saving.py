"""Files come back as they went, and everything else is refused in one line."""

import json
import os
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from saccade.checks import FileError, InputError, SaccadeError
from saccade.models import EventModel, ForwardInverseModel, SkipNetwork, preset
from saccade.saving import describe, load, load_original, save

SMALL = preset(latent=3, memory_hidden=(4,), skip_shared=(5,), initial_hidden=(4,))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save(EventModel(SMALL, key=jax.random.key(0)), path, seed=5)
    return path


def parts(path):
    """What stands in a file: its own description and its tensors, to be put together wrongly."""
    with safetensors.safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["saccade"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write(path, about, tensors):
    safetensors.numpy.save_file(tensors, path, {"saccade": json.dumps(about)})


@pytest.mark.parametrize("kind", [EventModel, ForwardInverseModel, SkipNetwork])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings", [SMALL, preset("original"), preset(memory="gru", action=0, context=2)], ids=["small", "original", "gru"]
)
def test_a_model_comes_back_as_it_went(tmp_path, kind, precision, settings):
    model = jax.tree.map(lambda a: a.astype(precision), kind(settings, key=jax.random.key(1)))
    save(model, tmp_path / "model", seed=7, recipe={"rate": 0.1})
    again = load(tmp_path / "model")
    assert jax.tree.structure(again) == jax.tree.structure(model)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(model), strict=True):
        assert a.dtype == b.dtype
        assert (np.asarray(a) == np.asarray(b)).all()
    about = describe(tmp_path / "model")
    assert about["notes"] == {"seed": 7, "recipe": {"rate": 0.1}}
    assert {"saccade", "jax", "python", "command"} <= about["made_by"].keys()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_the_same_model_gives_the_same_bytes(saved, tmp_path):
    save(EventModel(SMALL, key=jax.random.key(0)), tmp_path / "again", seed=5)
    assert saved.read_bytes() == (tmp_path / "again").read_bytes()


def test_notes_with_numbers_for_keys_can_be_read_again(tmp_path):
    save(SkipNetwork(SMALL, key=jax.random.key(0)), tmp_path / "model", loss={100: 0.1, 20: 0.2})
    load(tmp_path / "model")
    assert describe(tmp_path / "model")["notes"] == {"loss": {"100": 0.1, "20": 0.2}}


def test_a_file_cut_short_anywhere_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    short = tmp_path / "short"
    for length in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1}:
        short.write_bytes(whole[:length])
        with pytest.raises(FileError, match="no complete safetensors file"):
            load(short)


def test_a_changed_bit_anywhere_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(place % 8)
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(FileError):
            load(tmp_path / "changed")


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda a, t: a.update(version=2), "has format version 2: this saccade reads version 1"),
        (lambda a, t: a.update(notes={"seed": 6}), "was changed or damaged"),
        (lambda a, t: a["settings"].update(latent=4), "was changed or damaged"),
        (lambda a, t: t.pop("skip.network.mean.layers.0.bias"), "was changed or damaged"),
        (lambda a, t: a.pop("checksum"), "was changed or damaged"),
    ],
)
def test_tampering_is_noticed(saved, spoil, wanted):
    about, tensors = parts(saved)
    spoil(about, tensors)
    write(saved, about, tensors)
    with pytest.raises(FileError, match=wanted):
        load(saved)


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda a, t: a["settings"].update(latent=4), "has shape .* wanted .* by the settings"),
        (lambda a, t: a["settings"].update(latent="x"), "latent is 'x'"),
        (lambda a, t: a["settings"].pop("latent"), r"settings unlike this version's \(latent\)"),
        (lambda a, t: a["settings"].update(memory="lstm"), "memory 'lstm' is unknown"),
        (lambda a, t: a.update(kind="Zebra"), "holds a 'Zebra': wanted one of EventModel"),
        (lambda a, t: t.pop("skip.network.mean.layers.0.bias"), "skip.network.mean.layers.0.bias is missing"),
        (lambda a, t: t.update(more=np.zeros(2)), "more is too many"),
        (lambda a, t: t.update({"skip.network.mean.layers.0.bias": np.zeros(11, np.int32)}), "holds int32"),
    ],
)
def test_contradictions_are_noticed_even_with_a_right_checksum(saved, monkeypatch, spoil, wanted, untyped):
    about, tensors = parts(saved)
    spoil(about, tensors)
    monkeypatch.setattr("saccade.saving._checksum", lambda *_: about["checksum"])
    write(saved, about, tensors)
    with pytest.raises(SaccadeError, match=wanted):
        load(saved)


def test_foreign_files_are_refused_unread(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "pickle").write_bytes(pickle.dumps(Trap()))
    np.savez(tmp_path / "trap.npz", x=np.asarray([Trap()], object))
    safetensors.numpy.save_file({"weight": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(FileError, match="no complete safetensors"):
        load(tmp_path / "pickle")
    with pytest.raises(FileError, match="not written by saccade"):
        load(tmp_path / "foreign")
    with pytest.raises(FileError, match="plain arrays"):
        load_original(tmp_path / "trap.npz")
    with pytest.raises(FileError, match="plain arrays"):
        load_original(tmp_path / "pickle")
    assert not (tmp_path / "sprung").exists()
    for reader in (load, load_original):
        with pytest.raises(FileError, match="cannot be read: No such file"):
            reader(tmp_path / "nothing")
        with pytest.raises(FileError, match="cannot be read"):
            reader(tmp_path)


def test_saving_harms_nothing_that_exists(saved, tmp_path):
    before = saved.read_bytes()
    other = EventModel(SMALL, key=jax.random.key(9))
    with pytest.raises(FileError, match="exists already"):
        save(other, saved)
    with pytest.raises(TypeError):
        save(other, saved, overwrite=True, seed={1, 2})  # JSON has no sets
    assert saved.read_bytes() == before
    with pytest.raises(FileError, match="cannot be written"):
        save(other, saved / "below a file")
    assert [file.name for file in tmp_path.iterdir()] == [saved.name]
    save(other, saved, overwrite=True)
    assert saved.read_bytes() != before


def test_only_single_models_are_saved(tmp_path, untyped):
    population = jax.vmap(lambda key: EventModel(SMALL, key=key))(jax.random.split(jax.random.key(0), 2))
    with pytest.raises(InputError, match=r"has shape \(2, .*wanted"):
        save(population, tmp_path / "population")
    with pytest.raises(InputError, match="cannot save a dict"):
        save({}, tmp_path / "dict")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_the_authors_names_are_read_from_both_formats(tmp_path, suffix):
    golden = np.load("tests/golden/forward_inverse_gatel0rd.npz")
    arrays = {name.removeprefix("param."): golden[name] for name in golden.files if name.startswith("param.")}
    path = tmp_path / f"model{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        safetensors.numpy.save_file(arrays, path)
    model = load_original(path)
    assert model.settings == preset("original")
    assert (model.inverse.variance.layers[1].weight == golden["param.fc_IM_sigma.2.weight"]).all()
    save(model, tmp_path / "saved")
    assert jax.tree.all(jax.tree.map(jnp.array_equal, load(tmp_path / "saved"), model))


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda a: a.pop("param.fc_FM.4.bias"), "forward.mean.layers.2.bias is missing"),
        (lambda a: a.pop("param.fc_FM.4.weight"), "sizes do not go together|has no matrix"),
        (
            lambda a: a.update({"param.fc_XM.0.weight": np.zeros((1, 1))}),
            "'fc_XM.0.weight', which the authors' networks",
        ),
        (
            lambda a: a.update({"param.fc_FM.1.weight": np.zeros((1, 1))}),
            "'fc_FM.1.weight', which the authors' networks",
        ),
        (lambda a: a.update({"param.fc_FM.2.weight": np.zeros((32, 63))}), "has shape"),
        (lambda a: a.clear(), "has no matrix for"),
    ],
)
def test_incomplete_parameters_of_the_authors_are_refused(tmp_path, spoil, wanted):
    arrays = dict(np.load("tests/golden/forward_inverse_gatel0rd.npz"))
    spoil(arrays)
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(FileError, match=wanted):
        load_original(tmp_path / "model.npz")


def test_skip_network_of_the_authors_with_context():
    skip = load_original("tests/golden/skip_network.npz", context=3)
    assert (skip.settings.latent, skip.settings.context) == (13, 3)
