"""All studies from nothing to a page, as small as they can be: what is done, what is not done again, what is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest
from chromium import Page, find

from saccade import sequences, training
from saccade.checks import FileError, InputError
from saccade.studies import claims, reproduce
from saccade.studies.study import SCALES, read_json, read_table

pytestmark = pytest.mark.xdist_group("reproduce")
TINY = replace(
    SCALES["smoke"],
    per_kind=8,
    recipe={"updates": 4, "evaluate_every": 2, "evaluate_on": 12, "batch": 12},
    curve_on=12,
    rivalry=replace(SCALES["smoke"].rivalry, levels=("clean", "middle"), limit=12, training=12),
)
STEPS = tuple(step for steps in reproduce.STUDIES.values() for step in steps)


@pytest.fixture(scope="module", autouse=True)
def _single_precision():
    """As it is used; tests of exact things elsewhere want more."""
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A study done once, and what was told meanwhile."""
    told = []
    out = tmp_path_factory.mktemp("study") / "out"
    return reproduce.reproduce("all", TINY, out=out, tell=lambda *at: told.append(at)), told


def test_gates_meet_rivals_also_after_learning_from_sequences_as_noisy(first):
    out = first[0].folder
    rows = read_table(out / "tables" / "rivals.csv")
    for level in ("clean", "middle"):
        methods = {row["method"] for row in rows if row["noise"] == level}
        assert {"gates, episodes", "retrained gates, episodes", "PELT"} <= methods
    clean, noisy = (sequences.load(place / "train.safetensors") for place in (out / "data", out / "noisy" / "middle"))
    spread = np.std(np.asarray(noisy.observation) - np.asarray(clean.observation))
    assert spread == pytest.approx(0.01, rel=0.05)
    run = training.about(out / "noisy" / "middle" / "training")
    assert run["data_checksum"].split()[0] == sequences.checksum(noisy)


@pytest.fixture
def folder(first, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(first[0].folder, tmp_path / "out")
    # Runs say where their data is, and that is in the same folder.
    return tmp_path / "out"


@pytest.fixture
def measured(monkeypatch):
    """Which steps are done anew; they are still done."""
    done = []

    def noting(step, function):
        def work(*arguments):
            done.append(step)
            return function(*arguments)

        return work

    for name, steps in reproduce.STUDIES.items():
        noted = {step: (noting(step, function), outputs) for step, (function, outputs) in steps.items()}
        monkeypatch.setitem(reproduce.STUDIES, name, noted)
    return done


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take long, and are not what the test is about."""
    monkeypatch.setattr(reproduce, "_draw", lambda *arguments: [])


def _state(folder):
    """When each file that holds a result was written."""
    return {
        path.relative_to(folder): path.stat().st_mtime_ns
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", "claims.json")
    }


def test_everything_is_made(first):
    done, told = first
    assert done.finished
    for file in (file for steps in reproduce.STUDIES.values() for _, outputs in steps.values() for file in outputs):
        # Without one of two seeds there is nothing to compare.
        assert (done.folder / "tables" / file).read_text().strip() or file == "skip_spread_left_out.csv", file
    assert [one["id"] for one in done.claims] == list(claims.CLAIMS)
    verdicts = {one["id"]: one["verdict"] for one in done.claims}
    assert all(
        verdicts[name] in ("holds", "does not hold") for name in ("A1", "A3", "A5", "B1", "B2", "B3", "D1", "D4")
    )
    assert all(verdicts[name] == "not yet run" for name in ("A2", "C1", "E1"))  # one λ and variant only, another study
    assert done.claims == claims.load(done.folder / "claims.json")
    assert {"data: train", "data: test", "prediction", "gates", "rivals", "skip predictions", "figures"} <= {
        name for name, _, _ in told
    }
    assert all(0 <= count <= wanted for _, count, wanted in told)
    assert set(STEPS) <= set(done.took)


def test_tables_have_a_row_for_every_model_and_say_where_they_come_from(first):
    tables = first[0].folder / "tables"
    assert [(row["memory"], row["seed"]) for row in read_table(tables / "test.csv")] == [
        *(("gatel0rd", 5), ("gatel0rd", 6), ("gru", 5), ("gru", 6))
    ]
    assert {row["update"] for row in read_table(tables / "skip_distances.csv")} == {0, 2, 4}
    made = read_json(tables / "provenance.json")
    assert made["scale"]["name"] == "smoke"
    assert made["recipe"]["updates"] == 4
    assert set(made["tables"]) == {
        file for steps in reproduce.STUDIES.values() for _, files in steps.values() for file in files
    }
    assert {"command", "date", "seconds", "device", "versions"} <= set(made["tables"]["test.csv"])


def test_the_page_shows_claims_figures_and_sequences(first, tmp_path):
    if find() is None:
        missing = "no Chromium was found: install Debian's chromium"
        (pytest.fail if "CI" in os.environ else pytest.skip)(missing)
    done = first[0]
    with Page(tmp_path / "profile") as page:
        for width, figure in ((1280, 34 * 16), (390, 390)):  # a figure for one column of print is not blown up
            page.open(done.report, width=width)
            narrow = page("[...document.querySelectorAll('figure img.narrow')].map(one => one.clientWidth)")
            assert 0 < max(narrow) <= figure
            assert page.complaints() == []
            assert page.requests() == []
            assert page("document.documentElement.scrollWidth") <= width
        shown = page("[...document.querySelectorAll('.claims .id')].map(one => one.innerText)")
        assert shown == list(claims.CLAIMS)
        drawn = page("[...document.querySelectorAll('figure img')].map(one => one.complete && one.naturalWidth > 0)")
        assert len(drawn) == len(read_json(done.folder / "figures" / "figures.json")) == 14
        assert all(drawn)
        assert page("document.querySelectorAll('#episode option').length") == 18
        assert "(smoke, fast)" in page("document.querySelector('h1').innerText")


def test_a_second_time_nothing_is_done(folder, measured):
    before = _state(folder)
    began = time.process_time()
    done = reproduce.reproduce("all", TINY, out=folder)
    assert time.process_time() - began < 5
    assert done.finished
    assert measured == []
    assert _state(folder) == before


def test_what_is_missing_is_made_again_and_nothing_else(folder, measured):
    (folder / "tables" / "overlap.csv").unlink()
    before = _state(folder)
    reproduce.reproduce("all", TINY, out=folder)
    assert measured == ["gates"]
    changed = {path.parts[0] for path, when in _state(folder).items() if before.get(path) != when}
    assert changed == {"tables", "stages.json", "report.html"}  # which says when tables were made; figures stay


def test_of_all_studies_only_the_one_that_is_named_is_done(folder, measured, undrawn):
    for file in ("overlap.csv", "skip_spread.csv"):
        (folder / "tables" / file).unlink()
    reproduce.reproduce("skips", TINY, out=folder)
    assert measured == ["skip predictions"]


def test_changed_settings_are_measured_again_but_not_trained_again(folder, measured, undrawn):
    models = _state(folder / "training")
    reproduce.reproduce("all", replace(TINY, rivalry=replace(TINY.rivalry, limit=9)), out=folder)
    assert measured == ["rivals"]
    measured.clear()
    reproduce.reproduce("skips", replace(TINY, curve_points=2), out=folder)
    assert measured == ["skip predictions", "skip examples"]
    assert {row["update"] for row in read_table(folder / "tables" / "skip_distances.csv")} == {0, 4}
    assert _state(folder / "training") == models


def test_other_models_are_not_trained_into_the_same_folder(folder):
    with pytest.raises(FileError, match="choose another folder"):
        reproduce.reproduce("all", replace(TINY, seeds=(5, 6, 7)), out=folder)


def test_the_plan_says_what_is_done_and_changes_nothing(folder):
    before = _state(folder)
    assert all(stage.done for stage in reproduce.plan("all", TINY, out=folder))
    (folder / "tables" / "overlap.csv").unlink()
    left = [stage.name for stage in reproduce.plan("all", TINY, out=folder) if not stage.done]
    assert left == ["gates", "figures, claims, report"]
    new = reproduce.plan("skips", TINY, out=folder / "new")
    assert [stage.name for stage in new] == [
        *("data", "training", "skip predictions", "skip examples", "figures, claims, report")
    ]
    assert not any(stage.done for stage in new)
    before.pop(next(path for path in before if path.name == "overlap.csv"))
    assert _state(folder) == before


@pytest.mark.parametrize(("scale", "minutes"), [("smoke", 3), ("demo", 5), ("quick", 12)])
def test_small_scales_are_meant_to_fit_into_their_time_on_two_cores(tmp_path, monkeypatch, scale, minutes):
    monkeypatch.setattr(reproduce.machine, "cores", lambda: 2)
    assert sum(stage.seconds for stage in reproduce.plan("all", scale, out=tmp_path)) < 60 * minutes


def test_results_are_kept_and_never_overwritten_by_a_smaller_scale(folder, tmp_path):
    keep = tmp_path / "results"
    better = [
        {**one, "scale": "full", "seeds": list(range(10)), "verdict": "holds"}
        for one in claims.load(folder / "claims.json")
    ]
    keep.mkdir()
    claims.save([one for one in better if one["id"] in ("A1", "A2")], keep / "claims.json")
    reproduce.reproduce("all", TINY, out=folder, keep=keep)
    merged = {one["id"]: one["scale"] for one in claims.load(keep / "claims.json")}
    assert merged["A1"] == merged["A2"] == "full"
    assert merged["A3"] == "smoke"
    assert list(merged) == list(claims.CLAIMS)
    kept = sorted(path.name for path in (keep / "smoke-fast" / "tables").iterdir())
    assert kept == sorted(path.name for path in (folder / "tables").iterdir())
    assert (keep / "smoke-fast" / "figures" / "training.pdf").read_bytes()[:4] == b"%PDF"
    assert claims.load(keep / "smoke-fast" / "claims.json") == claims.load(folder / "claims.json")


def test_training_that_was_interrupted_is_told_and_nothing_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce.training, "train", lambda *arguments, **more: False)
    monkeypatch.setattr(reproduce, "_make_data", lambda *arguments: None)
    done = reproduce.reproduce("all", TINY, out=tmp_path)
    assert not done.finished
    assert done.report is None
    assert not (tmp_path / "claims.json").exists()


def test_studies_that_are_unknown_are_refused(tmp_path):
    with pytest.raises(InputError, match="study 'diverse' is unknown: choose one of all, gaze, segmentation, skips"):
        reproduce.reproduce("diverse", TINY, out=tmp_path / "out")
    with pytest.raises(InputError, match="the scale demo trains no models for gaze: choose another scale"):
        reproduce.reproduce("gaze", "demo", out=tmp_path / "out")
    with pytest.raises(InputError, match="no study is named"):
        reproduce.reproduce((), TINY, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- As a person meets it ------------------------------------------------------------------------------------------


def saccade(*arguments, folder):
    command = [sys.executable, "-m", "saccade", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)


def test_claims_are_shown_from_a_folder_or_a_file(first, tmp_path):
    whole = saccade("claims", first[0].folder, folder=tmp_path)
    assert whole.returncode == 0, whole.stderr
    for text in ("A1", "D4", "not yet run", "does not hold", "smoke fast, 2 seeds"):
        assert text in whole.stdout
    as_json = saccade("claims", first[0].folder / "claims.json", "--json", folder=tmp_path)
    assert json.loads(as_json.stdout) == first[0].claims


def test_a_dry_run_says_what_would_be_done(tmp_path):
    done = saccade("reproduce", "all", "--scale", "full", "--dry-run", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "50 models" in done.stdout
    assert "on this machine while it is idle" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            ["reproduce", "diverse"],
            "study 'diverse' is unknown: choose one of all, gaze, gaze-recipes, recipes, segmentation, skips",
        ),
        (["reproduce", "all", "--scale", "huge"], "scale 'huge' is unknown: choose one of demo, full, quick, smoke"),
        (["reproduce", "all", "--recipe", "slow"], "recipe 'slow' is unknown: choose one of fast, paper"),
        (["reproduce", "recipes", "--scale", "quick"], "recipes is a study of one scale"),
        (["claims"], "results/claims.json does not exist: `saccade reproduce all --keep results` makes"),
        (["claims", "{first}/stages.json"], "stages.json holds no claims: name the claims.json"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(first, tmp_path, arguments, wanted):
    done = saccade(*[argument.format(first=first[0].folder) for argument in arguments], folder=tmp_path)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("saccade: ")
    assert not list(tmp_path.iterdir())


def test_stopped_by_ctrl_c_it_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "saccade", "reproduce", "all", "--scale", "quick", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        while not (tmp_path / "out" / "data").exists():
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
