"""Whatever the format: what goes out comes back, the right one is found, and broken input is named in one line."""

import os
import subprocess
import sys

import numpy as np
import pytest

from saccade import formats
from saccade.checks import FileError, InputError, SaccadeError

WRITABLE = {"npz": "a.npz", "csv": "a.csv", "parquet": "a.parquet", "robomimic": "a.hdf5", "saccade": "a.safetensors"}
LOST = {"csv": ("observation_units", "action_units", "context_units", "entities", "origin")}


@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("ragged", [True, False])
def test_what_goes_out_comes_back(tmp_path, example, same, name, ragged):
    whole = example(ragged=ragged)
    formats.write(whole, tmp_path / WRITABLE[name])
    assert os.listdir(tmp_path) == [WRITABLE[name]]
    assert same(whole, formats.read(tmp_path / WRITABLE[name]), without=LOST.get(name, ()))


@pytest.mark.parametrize("name", WRITABLE)
def test_sequences_with_nothing_extra_come_back_too(tmp_path, example, same, name):
    nothing = {"context": None, "event": None, "event_names": (), "kind": None, "kind_names": (), "columns": {}}
    whole = example(action=np.zeros((7, 5, 0)), **nothing)
    formats.write(whole, tmp_path / WRITABLE[name])
    assert same(whole, formats.read(tmp_path / WRITABLE[name]), without=LOST.get(name, ()))


@pytest.mark.parametrize("name", WRITABLE)
def test_a_format_can_be_named_where_the_path_does_not_tell(tmp_path, example, same, name):
    formats.write(example(), tmp_path / WRITABLE[name])
    formats.write(example(), tmp_path / "unnamed", name)
    with pytest.raises(FileError, match="no known format"):
        formats.read(tmp_path / "unnamed")
    assert same(example(), formats.read(tmp_path / "unnamed", name), without=LOST.get(name, ()))
    path = tmp_path / "misleading.csv"
    (tmp_path / WRITABLE[name]).rename(path)
    assert same(example(), formats.read(path, name), without=LOST.get(name, ()))


@pytest.mark.parametrize("name", WRITABLE)
def test_an_existing_file_is_left_alone_unless_told(tmp_path, example, name):
    path = tmp_path / WRITABLE[name]
    path.write_text("precious")
    with pytest.raises(FileError, match="exists already"):
        formats.write(example(), path)
    assert path.read_text() == "precious"
    formats.write(example(), path, overwrite=True)
    assert len(formats.read(path)) == 7
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", WRITABLE)
def test_a_full_disk_leaves_nothing_half_made(tmp_path, example, name):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("mounting a small file system takes root")
    try:
        with pytest.raises(FileError, match="No space left"):
            formats.write(example(300, 50), tmp_path / WRITABLE[name])
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("name", WRITABLE)
def test_an_unwritable_place_is_named(tmp_path, example, name):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileError, match="cannot be written"):
        formats.write(example(), tmp_path / "file" / WRITABLE[name])


@pytest.mark.parametrize("name", WRITABLE)
def test_a_file_cut_short_is_named_in_one_line(tmp_path, example, same, name):
    whole = example(30, ragged=False)
    path = tmp_path / WRITABLE[name]
    formats.write(whole, path)
    content = path.read_bytes()
    sizes = sorted({int(share * len(content)) for share in np.linspace(0, 1, 41)[:-1]} | {1, 2, 3, len(content) - 1})
    for size in sizes:
        path.write_bytes(content[:size])
        try:
            found = formats.read(path)
        except FileError as error:
            assert path.name in str(error) and "\n" not in str(error)  # noqa: PT017
        else:  # text that ends where a sequence ends cannot be known to have gone on
            assert name == "csv" and same(found, whole[: len(found)], without=LOST["csv"])


@pytest.mark.parametrize("name", WRITABLE)
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(FileError, match="does not exist"):
        formats.read(tmp_path / WRITABLE[name])
    with pytest.raises(FileError, match=WRITABLE[name]):
        formats.read(tmp_path / WRITABLE[name], name)


def test_a_path_that_the_system_refuses_is_named_in_one_line(tmp_path, example):
    with pytest.raises(FileError, match=r"x cannot be read: File name too long$"):
        formats.read(tmp_path / ("x" * 300))
    for path in (".", "/"):  # names of nothing that could be written beside
        with pytest.raises(FileError, match="exists already"):
            formats.write(example(), path, "csv")
        with pytest.raises(FileError, match="cannot be written"):
            formats.write(example(), path, "csv", overwrite=True)


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path, example):
    (tmp_path / "a.xyz").write_text("hello")
    with pytest.raises(FileError, match=r"npz \(\.npz\).*parquet \(\.parquet\).*minari"):
        formats.read(tmp_path / "a.xyz")
    with pytest.raises(FileError, match="no known format"):
        formats.read(tmp_path)
    with pytest.raises(InputError, match=r"'xyz' is unknown: choose one of apex, csv"):
        formats.read(tmp_path / "a.xyz", "xyz")
    for name in (None, "minari"):
        with pytest.raises(InputError, match=r"choose one of saccade \(\.safetensors\), npz"):
            formats.write(example(), tmp_path / "b.xyz", name)
    assert os.listdir(tmp_path) == ["a.xyz"]


def test_an_unknown_option_is_answered_with_the_known_ones(tmp_path, example):
    formats.write(example(), tmp_path / "a.hdf5")
    with pytest.raises(InputError, match="'key' is unknown to the format robomimic: it has keys, subset"):
        formats.read(tmp_path / "a.hdf5", key="x")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("a.parquet", "pyarrow", "parquet"), ("a.hdf5", "h5py", "robomimic"), ("data", "minari", "minari")],
)
def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch, example, name, module, extra):
    path = tmp_path / name
    if module == "minari":
        (path / "data").mkdir(parents=True)
        (path / "data" / "metadata.json").write_text("{}")
    else:
        formats.write(example(), path)
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)
    wanted = rf'^{module} is not installed: pip install "saccade\[{extra}\]"$'
    with pytest.raises(SaccadeError, match=wanted):
        formats.read(path)
    if module != "minari":
        with pytest.raises(SaccadeError, match=wanted):
            formats.write(example(), tmp_path / f"b{path.suffix}")


def test_formats_need_no_heavy_package_until_they_are_used():
    heavy = ("pyarrow", "h5py", "minari", "gymnasium")
    program = f"import sys, saccade.formats; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
