"""What the demo tells of the events that were found, and how it ends."""

import json

import pytest
from rich.console import Console

from saccade import cli, demo
from saccade.studies.reproduce import Reproduced

STEPS = 6


def example(kind="point", seed=5, boundary=(3,), opening=(2, 3)):
    """One sequence in which the hand moves by 1 cm a step, and is always foreseen where it is at step 4 (row 3)."""
    return {
        "kind": kind,
        "seed": seed,
        "entities": {"hand": [0, 1, 2]},
        "observation": [[0.01 * row, 0, 0] for row in range(STEPS + 1)],
        "phase": ["point"] * 3 + ["hold"] * 3,
        "strength": [0.1 * step for step in range(STEPS)],
        "opening": [step in opening for step in range(STEPS)],
        "boundary": [step in boundary for step in range(STEPS)],
        "skip_mean": [[0.03, 0, 0]] * (STEPS - 1) + [[None] * 3],
    }


@pytest.fixture
def folder(tmp_path):
    def write(*examples):
        (tmp_path / "tables").mkdir()
        (tmp_path / "tables" / "examples.json").write_text(json.dumps(examples))
        return tmp_path

    return write


def rows(table):
    return list(zip(*(column.cells for column in table.columns), strict=True))


def test_events_are_told_beside_the_script_s_phases(folder):
    found = demo.tables(folder(example()))
    assert [row[:3] for row in map(tuple, rows(found[0]))] == [("1–3", "point", ""), ("4–6", "hold", "0.30")]


def test_what_is_foreseen_is_compared_with_what_was_at_the_next_opening(folder):
    # From step 1 the gates open next at step 3, a centimetre before; from step 4 only the last step is left.
    found = demo.tables(folder(example()))
    assert [row[3] for row in rows(found[0])] == ["1.0 cm", "2.0 cm"]


def test_nothing_is_foreseen_from_the_last_step(folder):
    assert rows(demo.tables(folder(example(boundary=(5,))))[0])[-1] == ("6–6", "hold", "0.50", "")


def test_a_sequence_without_boundaries_is_one_event_and_the_first_of_each_kind_is_shown(folder):
    given = [example("stretch", boundary=()), example("stretch"), example("point"), example("point", seed=6)]
    found = demo.tables(folder(*given))
    assert [row[0] for row in rows(found[0])] == ["1–6"]
    assert [str(table.title).partition(":")[0] for table in found] == ["stretch", "point"]


def test_the_demo_is_both_studies_at_its_own_scale(monkeypatch, tmp_path):
    done = Reproduced(tmp_path, True, [], None, {})
    asked = []
    monkeypatch.setattr(demo, "reproduce", lambda *given, **more: asked.append((given, more)) or done)
    assert demo.run(tmp_path) == done
    assert asked == [(("all", "demo", "fast"), {"out": tmp_path, "tell": None})]


def test_the_demo_ends_with_events_claims_and_the_page(monkeypatch, folder, capsys):
    claim = {"id": "A3", "claim": "Updates sit there", "value": 0.953, "low": 0.61, "high": 1.3, "verdict": "holds"}
    claim |= {"scale": "demo", "recipe": "fast", "seeds": [5, 6]}
    out = folder(example())
    done = Reproduced(out, True, [claim], out / "report.html", {"gates": 3.0})
    monkeypatch.setattr(demo, "run", lambda folder, told: done)
    monkeypatch.setattr(cli, "Console", lambda **more: Console(width=100, **more))
    monkeypatch.setattr("saccade.machine.prepare", lambda: None)
    cli.demo(out)
    said = capsys.readouterr().out
    for text in ("4–6", "hold", "A3", "0.953 (0.61 to 1.3)", "holds", "demo fast, 2 seeds", str(out / "report.html")):
        assert text in said


def test_a_demo_that_was_interrupted_ends_as_by_ctrl_c(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run", lambda folder, told: Reproduced(tmp_path, False, [], None, {}))
    monkeypatch.setattr("saccade.machine.prepare", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        cli.demo(tmp_path)
