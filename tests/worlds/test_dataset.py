"""Making the set: the same bytes whatever happens on the way, and nothing harmed."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from saccade import sequences
from saccade.checks import FileError, InputError
from saccade.files import only_one
from saccade.worlds import KINDS, dataset

SMALL = {"train": 6, "test": 3}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(dataset, "BLOCK", 2)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    dataset.make(folder, SMALL, seed=3, workers=1)
    return folder


def test_the_set_is_what_was_asked_for(undisturbed):
    assert sorted(contents(undisturbed)) == ["test.safetensors", "train.safetensors"]
    for split, count in SMALL.items():
        made = sequences.load(undisturbed / f"{split}.safetensors")
        assert made.kind_names == KINDS
        assert [len(made[kind]) for kind in KINDS] == [count] * 3
        assert made.origin["seed"] == 3
        assert made.origin["discarded"].keys() == set(KINDS)
        assert {"saccade", "mujoco", "gymnasium-robotics"} <= made.origin["versions"].keys()
        assert made.origin["command"] == f"saccade data scripted --{split} {count} --seed 3 --table 0.3 0.5"


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_and_blocks_change_no_byte(tmp_path, monkeypatch, undisturbed, workers):
    monkeypatch.setattr(dataset, "BLOCK", 5)
    dataset.make(tmp_path, SMALL, seed=3, workers=workers)
    assert contents(tmp_path) == contents(undisturbed)


def test_progress_counts_up_to_the_whole(tmp_path):
    told = []
    dataset.make(tmp_path, {"test": 3}, progress=lambda *step: told.append(step))
    assert told == [("test", done, 9) for done in (2, 3, 5, 6, 8, 9)]


PROGRAM = """
import sys, time
from saccade.worlds import dataset
dataset.BLOCK = 2
def slowly(split, done, wanted):
    print(done, flush=True)
    time.sleep(0.2)
dataset.make(sys.argv[1], {"train": 6, "test": 3}, seed=3, progress=slowly)
"""


@pytest.mark.parametrize("blocks", [1, 3, 8, 11])
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path, undisturbed, blocks):
    running = subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for _ in range(blocks):
        running.stdout.readline()
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    running.stdout.close()
    (tmp_path / ".unfinished" / ".half.safetensors.1.tmp").write_bytes(b"cut sho")
    (tmp_path / ".train.safetensors.1.tmp").write_bytes(b"cut sho")
    kept = next((tmp_path / ".unfinished").glob("t*.safetensors"))
    written = kept.stat().st_mtime_ns
    seen = []
    dataset.make(tmp_path, SMALL, seed=3, progress=lambda *_: seen.append(kept.exists() and kept.stat().st_mtime_ns))
    assert seen[0] == written  # what was finished was not made again
    assert contents(tmp_path) == contents(undisturbed)


def test_blocks_that_are_damaged_or_of_another_set_are_made_anew(tmp_path, undisturbed):
    def stop(split, done, wanted):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataset.make(tmp_path, SMALL, seed=4, progress=stop)
    first, second = sorted((tmp_path / ".unfinished").glob("*.safetensors"))
    second.write_bytes(first.read_bytes()[:-5])
    dataset.make(tmp_path, SMALL, seed=3)
    assert contents(tmp_path) == contents(undisturbed)


def test_what_is_finished_is_left_alone(tmp_path, undisturbed):
    for name, content in contents(undisturbed).items():
        (tmp_path / name).write_bytes(content)
    times = [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]
    dataset.make(tmp_path, SMALL, seed=3)
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())] == times
    with pytest.raises(FileError, match="exists already and was made otherwise"):
        dataset.make(tmp_path, SMALL, seed=5)
    (tmp_path / "validation.safetensors").write_text("mine")
    with pytest.raises(FileError, match="no complete safetensors file"):
        dataset.make(tmp_path, {"validation": 2})
    assert (tmp_path / "validation.safetensors").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(tmp_path):
    with (
        only_one(tmp_path / ".unfinished", "making sequences"),
        pytest.raises(FileError, match="in use: another process is making sequences there"),
    ):
        dataset.make(tmp_path, SMALL)


@pytest.mark.parametrize("counts", [{}, {"train": 0}, {"train": 2.5}])
def test_wrong_counts_are_explained(tmp_path, counts, untyped):
    with pytest.raises(InputError, match="wanted a count of at least 1"):
        dataset.make(tmp_path, counts)
    with pytest.raises(InputError, match="'tain' is unknown: choose one of test, train, validation"):
        dataset.make(tmp_path, {"tain": 1})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be written to: .*; choose another folder"):
        dataset.make(tmp_path / "file" / "below", SMALL)
    with pytest.raises(FileError, match="cannot be written to: File name too long; choose another folder"):
        dataset.make(tmp_path / ("x" * 300), SMALL)


def test_ctrl_c_is_one_line_and_keeps_what_is_done(tmp_path):
    command = [sys.executable, "-m", "saccade", "data", "scripted", tmp_path, "--train", "3200", "--test", "0"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".unfinished/t*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert re.search(r"saccade: stopped; .* goes on from there\n$", told)
    assert "Traceback" not in told
    assert list(tmp_path.glob(".unfinished/t*.safetensors"))
    assert not list(tmp_path.glob(".unfinished/.*.tmp"))
