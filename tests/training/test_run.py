"""Runs survive what happens to them: killed, interrupted, damaged, out of disk, they end where they would have."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tiny import example, small_members

from saccade import saving, sequences
from saccade.checks import FileError, InputError, SaccadeError
from saccade.files import only_one
from saccade.training import run

KILLS = 20


def few(**changes):
    """Models of 40 updates, which are kept every 10."""
    return small_members(**{"evaluate_every": 10} | changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data) -> Path:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run.train(folder, few(), data)
    return folder


def stopped(folder: Path, data: Path, key: signal.Signals = signal.SIGINT) -> Path:
    """The same run, stopped after 20 updates."""
    assert not run.train(folder, few(), data, tell=lambda at: signal.raise_signal(key) if at.update == 10 else None)
    assert run.status(folder)[0]["state"] == "stopped"
    return folder


def numbers(folder: Path) -> dict[str, bytes]:
    """Every number of the newest checkpoints and of all milestones."""
    newest = [max(group.glob("checkpoint-*.safetensors")) for group in folder.glob("group-*")]
    return {
        f"{path.relative_to(folder)} {name}": array.tobytes()
        for path in sorted([*newest, *folder.glob("models/*/*.safetensors")])
        for name, array in safetensors.numpy.load_file(path).items()
    }


def assert_same(folder: Path, other: Path):
    wanted = numbers(other)
    assert len(wanted) > 100
    assert numbers(folder) == wanted
    assert run.metrics(folder) == run.metrics(other)


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("group-1/checkpoint-*"))


# --- Killed --------------------------------------------------------------------------------------------------------


def resume_in_a_process(folder, compiled, operation, told):
    """Goes on with a run in a process of its own, which kills itself at its nth operation on the run's files."""
    import jax

    for name, value in compiled.items():
        jax.config.update(name, value)
    jax.config.update("jax_disable_most_optimizations", True)
    counted = 0

    def count(event, arguments):
        nonlocal counted
        if (event == "open" and str(arguments[0]).endswith(".tmp")) or event in ("os.rename", "os.remove"):
            counted += 1
            if counted == operation:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with run.interruptible() as interrupted:
        run.train_group(folder, 0, tell=lambda _: told.set(), interrupted=interrupted, save_every=0)


def test_killed_twenty_times_a_run_ends_with_the_same_bits(tmp_path, data, compiled):
    chance = random.Random(int.from_bytes(os.urandom(2)))
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["saccade.training.run"])
    folders = []
    for name in ("killed", "whole"):
        folders.append(tmp_path / name)
        run.train(folders[-1], few(updates=400), data, engine=lambda *_: True)

    def resume(folder, operation=None):
        told = processes.Event()
        process = processes.Process(target=resume_in_a_process, args=(folder, compiled, operation, told))
        process.start()
        return process, told

    for attempt in range(KILLS):
        by_moment = attempt % 2
        process, told = resume(folders[0], None if by_moment else chance.randint(1, 30))
        if by_moment:
            assert told.wait(120)
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, f"attempt {attempt} ended by itself"
    killed_at = run.updates_done(folders[0], 0)
    assert killed_at is None or killed_at < 400
    for folder in folders:
        process, _ = resume(folder)
        process.join(120)
        assert process.exitcode == 0
    assert_same(*folders)
    assert not [path for path in folders[0].rglob("*") if path.suffix in (".tmp", ".damaged")]


@pytest.mark.parametrize("key", [signal.SIGINT, signal.SIGTERM])
def test_stopped_politely_it_saves_and_goes_on_to_the_same_bits(tmp_path, data, whole, key):
    before = signal.getsignal(key)
    folder = stopped(tmp_path / "run", data, key)
    assert run.updates_done(folder, 0) == 20
    assert signal.getsignal(key) is before
    assert run.resume(folder)
    assert_same(folder, whole)


def test_going_on_with_a_finished_run_changes_nothing(tmp_path, whole, data):
    folder = shutil.copytree(whole, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    assert run.resume(folder)
    assert run.train(folder, few(), data)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == before


def test_a_model_is_kept_as_it_was_at_every_evaluation(whole):
    label = few()[0].label
    for update in (0, 10, 20, 30, 40):
        path = run.milestone(whole, label, update)
        notes = saving.describe(path)["notes"]
        assert notes["update"] == update and notes["member"]["seed"] == 5
        [row] = [row for row in run.metrics(whole) if row["update"] == update]
        assert {name: notes["measures"][name] for name in row} == row
        saving.load(path)
    assert [row["update"] for row in run.metrics(whole)] == [0, 10, 20, 30, 40]


# --- Damaged -------------------------------------------------------------------------------------------------------


def flip(path: Path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def cut(path: Path):
    path.write_bytes(path.read_bytes()[:1000])


def empty(path: Path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, cut, empty])
def test_from_a_damaged_checkpoint_it_falls_back_to_the_one_before(tmp_path, data, whole, damage):
    folder = stopped(tmp_path / "run", data)
    _, newest = checkpoints(folder)
    damage(newest)
    damaged = newest.read_bytes()
    with pytest.warns(UserWarning, match=rf"{newest}.*kept as {newest.stem}.damaged, going on from update 10") as told:
        assert run.resume(folder)
    assert len(told) == 1
    assert_same(folder, whole)
    assert newest.with_suffix(".damaged").read_bytes() == damaged


def test_where_no_checkpoint_is_whole_nothing_is_begun_anew(tmp_path, data):
    folder = stopped(tmp_path / "run", data)
    for path in checkpoints(folder):
        flip(path)
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    with pytest.raises(FileError, match=r"changed or damaged .* no checkpoint before it is whole: put one back"):
        run.resume(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()} == before


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, whose size can be changed."""
    place = tmp_path / "disk"
    place.mkdir()

    def resize(size, how="remount,"):
        command = ["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", place]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not resize("64k", how=""):
        pytest.skip("mounting a small file system takes root")
    yield place, resize
    subprocess.run(["umount", place], check=True)


def test_on_a_full_disk_all_that_was_saved_is_kept_and_it_goes_on_with_more_room(disk, data, whole):
    place, resize = disk
    folder = place / "run"
    for size in ("64k", "96k", "128k", "160k"):
        resize(size)
        with pytest.raises(FileError, match=rf"^{folder}.* cannot be written: No space left on device$"):
            run.train(folder, few(), data)
        assert not list(folder.rglob("*.tmp"))
        for path in folder.rglob("*.safetensors"):
            saving.read(path)
    assert run.updates_done(folder, 0) is not None
    resize("16m")
    assert run.resume(folder)
    assert_same(folder, whole)


# --- Wrong ---------------------------------------------------------------------------------------------------------


def test_numbers_that_are_none_end_it_with_what_was_saved_before(tmp_path, data):
    folder = tmp_path / "run"
    [lost] = few(learning_rate=1e30, warmup=0)
    message = r"of fast-changed_gatel0rd_1_seed5 became (nan|inf) between updates 0 and 10: .* as of update 0; look"
    for _ in range(2):  # going on with it does not help, nor harm
        with pytest.raises(SaccadeError, match=message):
            run.train(folder, [lost], data)
        [kept] = checkpoints(folder)
        assert all(np.isfinite(array).all() for array in saving.read(kept)[1].values())
        assert [row["update"] for row in run.metrics(folder)] == [0]


def test_two_trainings_in_one_folder_are_kept_apart(tmp_path, data, whole):
    folder = stopped(tmp_path / "run", data)
    with only_one(folder / "group-1", "training"):
        assert run.status(folder)[0]["state"] == "running"
        for again in (lambda: run.resume(folder), lambda: run.train(folder, few(), data)):
            with pytest.raises(FileError, match="group-1 is in use: another process is training there; wait or stop"):
                again()
    assert run.resume(folder)
    assert_same(folder, whole)


def test_other_settings_or_data_are_named_and_nothing_is_touched(tmp_path, data, whole):
    folder = stopped(tmp_path / "run", data)
    changed = tmp_path / "changed"
    sequences.save(example(30), tmp_path / "changed.safetensors")
    shutil.copytree(data, changed)
    sequences.save(example(24, seed=2), changed / "train.safetensors", overwrite=True)
    for wanted, where, message in (
        (few(updates=80), data, r"\(updates was 40, is 80\)"),
        (few(sparsities=(1.0, 2.0)), data, r"\(fast-changed_gatel0rd_2_seed5 is not in it\)"),
        (few(seeds=(6,)), data, r"\(fast-changed_gatel0rd_1_seed5 is not wanted now\)"),
        (few(), changed, "is a run with other data: choose another folder"),
        (few(), tmp_path / "changed.safetensors", "is a run with other data"),
    ):
        with pytest.raises(FileError, match=message):
            run.train(folder, wanted, where)
    with pytest.raises(FileError, match=f"^{changed} holds other sequences than {folder} was begun with"):
        run.resume(folder, data=changed)
    assert run.resume(folder)
    assert_same(folder, whole)


def test_data_that_changed_under_a_run_is_noticed_and_moved_data_is_taken(tmp_path, data, whole):
    there = shutil.copytree(data, tmp_path / "there")
    folder = stopped(tmp_path / "run", there)
    moved = shutil.move(there, tmp_path / "moved")
    with pytest.raises(FileError, match=f"^{there} does not exist"):
        run.resume(folder)
    shutil.copytree(data, there)
    sequences.save(example(24, seed=2), there / "train.safetensors", overwrite=True)
    with pytest.raises(FileError, match=f"^{there} has changed since {folder} was begun: put it back"):
        run.resume(folder)
    assert run.resume(folder, data=moved)
    assert_same(folder, whole)


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(FileError, match="is no run: there is no"):
        run.resume(tmp_path)
    for content in ("", "{", '{"data": "here"}', "[]", json.dumps({"groups": [[{}]], "data": "", "data_checksum": ""})):
        (tmp_path / "run.json").write_text(content)
        for look in (run.resume, run.status):
            with pytest.raises(SaccadeError, match="json"):
                look(tmp_path)


def test_models_are_grouped_as_wanted(tmp_path, data):
    folder = tmp_path / "run"
    wanted = few(seeds=(5, 6, 7), gru=True)
    assert run.train(folder, wanted, data, per_group=2, engine=lambda *_: True)
    assert [len(group) for group in run.about(folder)["groups"]] == [2, 1, 2, 1]
    assert {row["state"] for row in run.status(folder)} == {"not begun"}
    with pytest.raises(InputError, match="per_group is 0"):
        run.train(tmp_path / "other", wanted, data, per_group=0)


def test_runs_are_compared_by_mean_and_deviation_over_seeds(tmp_path, data):
    folder = tmp_path / "run"
    assert run.train(folder, few(seeds=(5, 6)), data)
    [row] = run.compare(folder)
    last = [one["observation_mse"] for one in run.metrics(folder) if one["update"] == 40]
    assert (row["seeds"], row["update"]) == (2, 40)
    assert row["observation_mse"] == {
        "mean": pytest.approx(np.mean(last)),
        "deviation": pytest.approx(np.std(last, ddof=1)),
    }
