"""The command line as a person meets it: run for real, in a process of its own."""

import json
import subprocess
import sys

import pytest


def saccade(*arguments, folder=None):
    command = [sys.executable, "-m", "saccade", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    done = saccade("data", "scripted", folder, "--train", 4, "--validation", 0, "--test", 2, "--seed", 1)
    assert done.returncode == 0, done.stderr
    assert "12 sequences, 300 steps, 25 each" in done.stdout
    return folder


def test_info_says_what_is_inside(made):
    whole = json.loads(saccade("data", "info", made, "--json").stdout)
    assert {name: summary["sequences"] for name, summary in whole.items()} == {
        "test.safetensors": 6,
        "train.safetensors": 12,
    }
    one = json.loads(saccade("data", "info", made / "train.safetensors", "--json").stdout)
    assert one == whole["train.safetensors"]
    assert one["events"]["stretch"] == {"stretch": 100}
    assert one["nan"] == 0
    shown = saccade("data", "info", made / "train.safetensors").stdout
    assert "hand_x" in shown
    assert "steps of each event" in shown


def test_info_notices_a_changed_byte(made, tmp_path):
    changed = bytearray((made / "train.safetensors").read_bytes())
    changed[-100] ^= 1
    (tmp_path / "changed.safetensors").write_bytes(changed)
    done = saccade("data", "info", tmp_path / "changed.safetensors")
    assert done.returncode == 2
    assert "was changed or damaged" in done.stderr


def test_convert_there_and_back(made, tmp_path):
    there = saccade("data", "convert", made / "test.safetensors", tmp_path / "test.parquet")
    assert there.returncode == 0, there.stderr
    back = saccade("data", "convert", tmp_path / "test.parquet", tmp_path / "test.npz")
    assert back.stdout.strip() == f"{tmp_path / 'test.npz'} holds 6 sequences, 150 steps"
    options = ["--option", "observation=observation.hand_x,observation.hand_y", "--option", "action=action.move_x"]
    less = saccade("data", "convert", tmp_path / "test.parquet", tmp_path / "less.npz", *options)
    assert less.returncode == 0, less.stderr
    summary = json.loads(saccade("data", "info", tmp_path / "less.npz", "--json").stdout)
    assert [name.rpartition(".")[2] for name in summary["dimensions"]["observation"]] == ["hand_x", "hand_y"]


def test_preview_of_one_kind(made, tmp_path):
    done = saccade("data", "preview", made / "test.safetensors", tmp_path / "p.gif", "--kind", "point", "--number", 1)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.gif").read_bytes()[:3] == b"GIF"
    assert "sequence 1 of kind point" in done.stdout


def test_the_benchmark_of_unroll_prints_json():
    numbers = json.loads(saccade("bench", "unroll", "--repeats", 2, "--json").stdout)
    assert numbers["plain_over_handwritten"] == pytest.approx(numbers["plain_ms"] / numbers["handwritten_ms"])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["dat"], "No such command 'dat'"),
        (["data", "scripted", "--train", "many"], "Invalid value for '--train'"),
        (["data", "scripted", "--train", "0", "--validation", "0", "--test", "0"], "are all 0: wanted"),
        (["data", "scripted", "--table", "0.5", "0.3"], "wanted the lower one first"),
        (["data", "scripted", "--table", "0.3", "9"], "table height 9 m: wanted 0.2 to 0.6 m"),
        (["data", "info", "nowhere"], "nowhere does not exist"),
        (["data", "info", "--format", "word", "."], "format 'word' is unknown: choose one of apex, csv"),
        (["data", "preview", "{made}/test.safetensors", "x.bmp"], "x.bmp ends in .bmp: wanted one of .png, .gif, .mp4"),
        (
            ["data", "preview", "{made}/test.safetensors", "x.png", "--number", "6"],
            "number is 6: there are 6 sequences",
        ),
        (["data", "preview", "{made}/test.safetensors", "x.png", "--kind", "jump"], "kind 'jump' is unknown: choose"),
        (["data", "convert", "{made}/test.safetensors", "x.doc"], "cannot be written as its name says: choose one of"),
        (["data", "convert", "{made}/test.safetensors", "x.npz", "--option", "a"], "option 'a': wanted name=value"),
        (["data", "convert", "{made}/test.safetensors", "x.npz", "--option", "a=1"], "option 'a' is unknown"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(made, tmp_path, arguments, wanted):
    done = saccade(*[argument.format(made=made) for argument in arguments], folder=tmp_path)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("saccade: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [[], ["data"], ["bench"]])
def test_without_a_command_the_help_is_shown(arguments):
    done = saccade(*arguments)
    assert done.returncode == 2
    assert "Usage: saccade" in done.stderr + done.stdout


def test_the_version_is_that_of_the_package():
    from saccade import __version__

    assert saccade("--version").stdout == f"saccade {__version__}\n"
