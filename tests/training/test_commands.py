"""`saccade train` and `saccade runs` as a person meets them: run for real, in processes of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.numpy

SMALL = ("--set", "updates=40", "--set", "evaluate_every=10", "--set", "batch=12", "--latent", "4")


@pytest.fixture(scope="module")
def environment(compiled):
    """Programs compiled once are found again."""
    return {
        **os.environ,
        **{name.upper(): str(value) for name, value in compiled.items()},
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }


@pytest.fixture(scope="module")
def start(environment):
    def begin(*arguments, **options) -> subprocess.Popen:
        command = [sys.executable, "-m", "saccade", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment, **pipes, **options)

    return begin


@pytest.fixture(scope="module")
def saccade(start):
    """Runs a command to its end: its exit code, and what it wrote to standard output and error."""

    def run(*arguments, **options):
        process = start(*arguments, **options)
        out, told = process.communicate(timeout=300)
        return process.returncode, out, told

    return run


@pytest.fixture(scope="module")
def trained(saccade, data, tmp_path_factory):
    """A folder with a finished run, and what a person saw."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = ("train", "runs/mine", "--data", data, *SMALL, "--seeds", "5", "--tensorboard")
    code, out, told = saccade(*arguments, cwd=folder)
    assert code == 0, told
    return folder, out, told


def numbers(folder: Path) -> dict[str, bytes]:
    return {
        f"{path.relative_to(folder)} {name}": array.tobytes()
        for path in sorted(folder.glob("models/*/*.safetensors"))
        for name, array in safetensors.numpy.load_file(path).items()
    }


def wait_for(path: Path, process: subprocess.Popen):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_training_tells_how_it_gets_on_and_ends_with_a_table(trained):
    folder, out, told = trained
    assert re.search(
        r"group 1: gatel0rd × 1, fast-changed: 40/40 .*loss \S+  skip \S+  obs MSE \S+  act MSE \S+  gates \S", told
    )
    assert re.search(r"fast-changed λ = 1 .* 1 .* 40 ", out) and "±" in out
    assert len(list((folder / "runs/mine").glob("models/*/*.safetensors"))) == 5


def test_metrics_are_also_in_tensorboard_files(trained):
    pytest.importorskip("tensorboardX")
    folder = trained[0] / "runs/mine"
    labels = {path.name for path in (folder / "models").iterdir()}
    assert {path.parent.name for path in (folder / "tensorboard").glob("*/events.*")} == labels
    [written, *_] = (folder / "tensorboard").glob("*/events.*")
    assert b"observation_mse" in written.read_bytes()


def test_runs_are_listed_looked_at_and_compared(saccade, trained):
    folder = trained[0]
    code, out, _ = saccade("runs", "list", cwd=folder)
    assert code == 0 and re.search(r"runs/mine .*gatel0rd × 1.* 40 of 40 .* finished", out)
    assert json.loads(saccade("runs", "list", "--json", cwd=folder)[1])["runs/mine"][0]["state"] == "finished"
    code, out, _ = saccade("runs", "status", "runs/mine", cwd=folder)
    assert code == 0 and "begun by `saccade train runs/mine" in out and "finished" in out and "obs MSE" in out
    code, out, _ = saccade("runs", "compare", "runs/mine", "runs/mine", cwd=folder)
    assert code == 0 and out.count("runs/mine") == 2
    [row] = json.loads(saccade("runs", "compare", "runs/mine", "--json", cwd=folder)[1])
    assert (row["seeds"], row["update"]) == (1, 40) and row["observation_mse"]["mean"] > 0


@pytest.mark.parametrize("key", [signal.SIGINT, signal.SIGKILL])
def test_a_training_that_was_ended_goes_on_to_the_same_models(start, saccade, data, trained, tmp_path, key):
    arguments = ("train", "runs/mine", "--data", data, *SMALL, "--seeds", "5")
    process = start(*arguments, cwd=tmp_path)
    folder = tmp_path / "runs/mine"
    wait_for(folder / "group-1/checkpoint-000000010.safetensors", process)
    process.send_signal(key)
    told = process.communicate(timeout=120)[1]
    assert len(list(folder.glob("models/*/*.safetensors"))) < 5, "it was over before it was ended"
    if key == signal.SIGINT:
        assert process.returncode == 130
        assert told.count("saccade: ") == 2
        assert told.endswith("saccade: stopped and saved; go on by: saccade train runs/mine --resume\n")
        again = ("train", "runs/mine", "--resume")
    else:
        assert process.returncode == -signal.SIGKILL
        again = arguments
    assert "stopped" in saccade("runs", "status", "runs/mine", cwd=tmp_path)[1]
    code, out, told = saccade(*again, cwd=tmp_path)
    assert code == 0 and "±" in out, told
    assert numbers(folder) == numbers(trained[0] / "runs/mine")


def test_a_damaged_checkpoint_is_one_line(saccade, trained, tmp_path):
    folder = shutil.copytree(trained[0] / "runs/mine", tmp_path / "mine")
    newest = folder / "group-1/checkpoint-000000040.safetensors"
    newest.rename(newest.with_name("checkpoint-000000035.safetensors"))
    newest.with_name("checkpoint-000000035.safetensors").write_bytes(b"")
    code, _, told = saccade("train", folder, "--resume")
    assert code == 0, told
    [line] = [line for line in told.splitlines() if "damaged" in line]
    assert line.startswith("saccade: ") and line.endswith("going on from update 30")
    assert numbers(folder) == numbers(trained[0] / "runs/mine")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["train", "runs/new", "--data", "nowhere"], "nowhere does not exist: make sequences with"),
        (["train", "runs/new", "--data", "{data}", "--set", "speed=1"], "recipe setting 'speed' is unknown: choose"),
        (["train", "runs/new", "--address", "auto"], "--address auto without --engine ray"),
        (["train", "runs/new", "--resume"], "runs/new is no run"),
        (["train", "runs/mine", "--resume", "--set", "updates=80"], "--set with --resume: a run goes on as it was"),
        (
            ["train", "runs/mine", "--data", "{data}", *SMALL, "--seeds", "6"],
            "seed5 is not wanted now): choose another folder",
        ),
        (["runs", "compare", "runs/mine", "runs/new"], "runs/new is no run"),
    ],
)
def test_a_mistake_is_one_line_and_touches_nothing(saccade, trained, data, arguments, wanted):
    folder = trained[0]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    code, out, told = saccade(*[argument.format(data=data) for argument in arguments], cwd=folder)
    assert code == 2
    assert out == ""
    assert told.startswith("saccade: ") and wanted in told and told.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_where_there_are_no_runs_the_way_to_one_is_shown(saccade, tmp_path):
    assert saccade("runs", "list", cwd=tmp_path)[:2] == (0, "no runs in runs: `saccade train runs/mine` begins one\n")
