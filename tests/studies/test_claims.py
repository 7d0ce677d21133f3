"""Each claim is judged on tables made by hand that show it, and on tables in which one thing is wrong."""

import json
from itertools import pairwise

import pytest

from saccade.checks import FileError
from saccade.studies import claims
from saccade.studies.study import write_json, write_table
from saccade.worlds.scripted import KINDS

SEEDS = (5, 6, 7)
REACH, POINT, STRETCH = KINDS
OURS = 20.0  # λ of models that look around
PROVENANCE = {
    "scale": {"name": "quick"},
    "recipe": {"name": "fast"},
    "tables": {
        name: {"date": "2026-05-14"}
        for name in dict.fromkeys(table for _, needed in claims.JUDGES.values() for table in needed)
    },
}


def model(seed, sparsity=1.0, memory="gatel0rd"):
    return {"label": f"{memory}{sparsity}{seed}", "memory": memory, "sparsity": sparsity, "seed": seed}


def predictions(rates=(0.08, 0.01, 0.002), error=1.0, action_error=1.0):
    """`test.csv`: three λ with their gate rates, errors as multiples of the GRU's; seeds differ a little."""
    rows = []
    for seed in SEEDS:
        by = 1 + 0.01 * (seed - 6)
        for sparsity, rate in zip((0.1, 1.0, 5.0), rates, strict=True):
            errors = {"observation_mse": 1e-6 * error * by, "action_mse": 4e-3 * action_error * by}
            rows.append({**model(seed, sparsity), **errors, "gate_rate": rate * by})
        rows.append({**model(seed, 0.0, "gru"), "observation_mse": 1e-6, "action_mse": 4e-3, "gate_rate": 1.0})
    return {"test.csv": rows}


def boundaries(f1=0.9, random=0.2, missed=()):
    """Tables of A3: scores of our boundaries and of as many at random, and which transitions are found."""
    rows, found = [], []
    for seed in SEEDS:
        by = 0.01 * (seed - 6)
        for name, score in (("episodes", f1), ("openings", f1), ("random", random), ("random openings", random)):
            own = 0 if "random" in name else by
            scores = dict.fromkeys(("precision", "recall", "f1"), None if score is None else score + own)
            rows.append({**model(seed), "boundaries": name, "kind": "all", **scores})
        for name in ("reach-grasp", "grasp-transport", "transport-hold"):
            recall = 0.1 if name in missed else 0.95
            found.append({**model(seed), "transition": name, "recall": recall + by, "random": 0.2})
    return {"agreement.csv": rows, "transitions.csv": found}


def arrivals(recall=0.95, random=0.3, overlap=0.8, chance=0.3):
    """Tables of A4."""
    by = {seed: 0.01 * (seed - 6) for seed in SEEDS}
    return {
        "transitions.csv": [
            {**model(seed), "transition": "point-hold", "recall": recall + by[seed], "random": random} for seed in SEEDS
        ],
        "overlap.csv": [
            {
                **model(seed),
                "overlap": overlap and overlap + by[seed],
                "chance": chance,
                "chance_in_use": chance,
                "in_use": 4,
            }
            for seed in SEEDS
        ],
    }


def rates(reach=0.2, point=0.15, stretch=0.02, at_first=0.9):
    """The table of A5; the first two steps, where something opens in any case, do not count."""
    kinds = zip(KINDS, (reach, point, stretch), strict=True)
    return {
        "openings.csv": [
            {**model(seed), "kind": kind, "step": step, "opening_rate": at_first if step < 3 else rate + 0.001 * seed}
            for kind, rate in kinds
            for step in range(1, 6)
            for seed in SEEDS
        ]
    }


def development(kind, target, *, end=0.03, others=0.2, before=0.15, goal=(1.0, 0.02, 0.01)):
    """The table of B1 and B2: at birth all is far off, then known, then trained."""
    rows = []
    for seed in SEEDS:
        by = 0.002 * (seed - 6)
        for number, update in enumerate((0, 100, 200)):
            for to in ("hand", "object", "goal"):
                last = end if to == target else others
                distance = (1.4, before, last)[number] + by
                rows.append(_distance(seed, kind, update, "hand", to, distance, now=0.15))
            rows.append(_distance(seed, kind, update, "goal", "goal", goal[number], now=0.0))
    return {"skip_distances.csv": rows}


def _distance(seed, kind, update, predicted, to, distance, *, now, step=2):
    where = {"kind": kind, "update": update, "from_step": step, "predicted": predicted, "to": to}
    return {**model(seed), **where, "distance": distance, "now_distance": now}


def spreads(stretch=0.1, reach=0.03, point=0.02, without=0.0):
    """Tables of B3; `without` is by how much stretching's spread falls if the first seed is left out."""
    kinds = list(zip(KINDS, (reach, point, stretch), strict=True))
    left_out = [
        {"sparsity": 1.0, "update": 200, "left_out": seed, "kind": kind}
        | {"spread": spread - without * (seed == 5 and kind == STRETCH)}
        for seed in SEEDS
        for kind, spread in kinds
    ]
    whole = [{"sparsity": 1.0, "update": 200, "kind": kind, "spread": spread} for kind, spread in kinds]
    return {
        "skip_spread.csv": [{**row, "update": 0, "spread": 1.0} for row in whole] + whole,
        "skip_spread_left_out.csv": left_out,
        "skip_distances.csv": [_distance(5, REACH, 200, "hand", "goal", 0.1, now=0.1)],
    }


def stay(moved=0.005, left=0.2):
    """The table of B4: how far what should stay is predicted from where it is, and how much is left of a transport."""
    rows = [
        _distance(seed, kind, 200, what, what, moved + 0.001 * (seed - 6), now=0.0)
        for seed in SEEDS
        for kind in KINDS
        for what in ("object", "goal")
    ]
    rows += [_distance(seed, REACH, 200, "object", "goal", 0.1 * left, now=0.1, step=12) for seed in SEEDS]
    return {"skip_distances.csv": rows}


def gaze(ends, *, early=None, variants=("learned",), spread=0.1, updates=(0, 100, 900, 1000)):
    """Tables of D and E: by condition, the leads of hand, object and goal at the end of training.

    `ends` may differ by variant: `{"learned": {condition: leads}}`. `early` is the lead of every entity before that.
    """
    rows = []
    for variant in variants:
        for condition, leads in ends.get(variant, ends).items():
            for number, lead in enumerate(leads):
                for seed in SEEDS:
                    for update in updates:
                        late = update >= 900 or early is None
                        by = spread * (seed - 6) * (number > 0)
                        rows.append(
                            {
                                **model(seed, OURS),
                                "variant": variant,
                                "update": update,
                                "condition": condition,
                                "entity": ("hand", "object", "goal")[number],
                                "lead": (lead if late else early) + by,
                                "share": 1.0,
                            }
                        )
    return {"gaze.csv": rows}


def onset(first):
    """A table of E2: objects are attended ahead of time from an update on, which differs between variants."""
    rows = []
    for variant, begins in first.items():
        for condition, target in (("inter", "object"), ("both", "object"), ("point", "goal")):
            for seed in SEEDS:
                for update in range(0, 1100, 100):
                    lead = -2.0 if update >= begins + 100 * (seed - 6) else 3.0
                    where = {"variant": variant, "update": update, "condition": condition, "entity": target}
                    rows.append({**model(seed, OURS), **where, "lead": lead, "share": 1.0})
    return {"gaze.csv": rows}


OBJECT_FIRST = {"inter": (4.0, -5.0, 8.0), "both": (-5.0, -2.0, 9.0), "point": (-5.0, 9.0, -2.0)}
LATER = {condition: tuple(lead + 3 for lead in leads) for condition, leads in OBJECT_FIRST.items()}
E1 = {"learned": OBJECT_FIRST, "every6": LATER, "true": OBJECT_FIRST}
CLAWS = {"rare": OBJECT_FIRST | {"claw inter": (4.0, -1.0, 8.0), "claw": (-5.0, 1.0, 9.0)}}
CLAWS["common"] = OBJECT_FIRST | {"claw inter": (4.0, -5.0, 8.0), "claw": (-5.0, -2.0, 9.0)}


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Judges one claim on tables, written and read as a study does."""

    def judge(name, tables):
        others = dict.fromkeys(claims.JUDGES, (None, None))  # whose tables are not there in full
        monkeypatch.setattr(claims, "JUDGES", others | {name: claims.JUDGES.get(name, (None, None))})
        monkeypatch.setattr(claims, "CHECKS", dict.fromkeys(claims.CLAIMS, ""))
        write_json(tmp_path / "provenance.json", PROVENANCE)
        for file, rows in tables.items():
            write_table(tmp_path / file, rows)
        return next(claim for claim in claims.judge(tmp_path) if claim["id"] == name)

    return judge


@pytest.mark.parametrize(
    ("name", "tables", "value"),
    [
        ("A1", predictions(error=1.05), 1.05),
        ("A2", predictions(), 0.01),
        ("A3", boundaries(), 0.9),
        ("A4", arrivals(), 0.95),
        ("A5", rates(), -0.13),
        ("B1", development(REACH, "object"), -0.12),
        ("B2", development(POINT, "goal"), -0.12),
        ("B3", spreads(), 0.1 / 0.03),
        ("B4", stay(), 0.005),
        ("D1", gaze({"intra": (-6.0, 5.0, 8.0)}), -6.0),
        ("D2", gaze(OBJECT_FIRST), -5.0),
        ("D3", gaze(OBJECT_FIRST, early=9.0), -2.0),
        ("D4", gaze(OBJECT_FIRST), -2.0),
        ("E1", gaze(E1, variants=("learned", "every6", "true")), -3.0),
        ("E2", onset({"cue": 300, "learned": 600}), -300.0),
        ("E3", gaze(CLAWS, variants=("rare", "common")), 4.0),
    ],
)
def test_a_claim_holds_where_its_tables_show_it(judged, name, tables, value):
    claim = judged(name, tables)
    assert claim["verdict"] == "holds", claim["check"]
    assert claim["value"] == pytest.approx(value, rel=1e-4)
    assert claim["low"] <= claim["value"] <= claim["high"]
    assert claim["scale"] == "quick"
    assert claim["recipe"] == "fast"
    assert claim["date"] == "2026-05-14"
    assert claim["command"] == f"saccade reproduce {claims.CLAIMS[name][1]} --scale quick --recipe fast"


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        pytest.param("A1", predictions(error=1.2), id="A1: observations worse"),
        pytest.param("A1", predictions(action_error=1.2), id="A1: actions worse"),
        pytest.param("A2", predictions(rates=(0.08, 0.03, 0.002)), id="A2: too often at λ = 1"),
        pytest.param("A2", predictions(rates=(0.08, 0.004, 0.002)), id="A2: too seldom at λ = 1"),
        pytest.param("A2", predictions(rates=(0.08, 0.01, 0.01)), id="A2: no fall from 1 to 5"),
        pytest.param("A3", boundaries(f1=0.21, random=0.2), id="A3: no better than chance"),
        pytest.param("A3", boundaries(f1=None), id="A3: nothing marked"),
        pytest.param("A3", boundaries(missed=("transport-hold",)), id="A3: a transition missed"),
        pytest.param("A4", arrivals(recall=0.7), id="A4: arrivals missed"),
        pytest.param("A4", arrivals(recall=1.0, random=1.0), id="A4: gates always open"),
        pytest.param("A4", arrivals(overlap=0.3), id="A4: other dimensions"),
        pytest.param("A4", arrivals(overlap=None), id="A4: nothing opens at arrival"),
        pytest.param("A5", rates(stretch=0.16), id="A5: more than pointing"),
        pytest.param("B1", development(REACH, "object", end=0.15), id="B1: no nearer"),
        pytest.param("B1", development(REACH, "object", others=0.12), id="B1: nearer to all"),
        pytest.param("B1", development(REACH, "object", before=0.02), id="B1: farther after being known"),
        pytest.param("B2", development(POINT, "goal", end=0.15), id="B2: no nearer"),
        pytest.param("B3", spreads(stretch=0.029), id="B3: seeds agree"),
        pytest.param("B3", spreads(stretch=0.04, without=0.02), id="B3: one seed makes it"),
        pytest.param("B4", stay(moved=0.03), id="B4: moved"),
        pytest.param("B4", stay(left=0.7), id="B4: not carried to the goal"),
        pytest.param("D1", gaze({"intra": (-1.0, 5.0, 8.0)}), id="D1: not long before"),
        pytest.param("D1", gaze({"intra": (-6.0, -1.0, 8.0)}), id="D1: the object before it too"),
        pytest.param("D1", gaze({"intra": (-6.0, 5.0, 8.0)}, spread=0.0), id="D1: no more spread"),
        pytest.param("D2", gaze({"inter": (4.0, 0.1, 8.0)}), id="D2: not before contact"),
        pytest.param("D3", gaze({"both": (-5.0, 0.5, 9.0)}, early=9.0), id="D3: not before contact"),
        pytest.param("D3", gaze({"both": (-1.0, -2.0, 9.0)}, early=9.0), id="D3: the object first"),
        pytest.param("D3", gaze(OBJECT_FIRST), id="D3: there from the beginning"),
        pytest.param("D3", gaze(OBJECT_FIRST, updates=(0, 1000)), id="D3: nothing early in training to compare with"),
        pytest.param("D4", gaze({"point": (-5.0, -3.0, 0.5)}), id="D4: not before arrival"),
        pytest.param(
            "E1",
            gaze({**E1, "every6": OBJECT_FIRST, "learned": LATER}, variants=("learned", "every6", "true")),
            id="E1: later than every six steps",
        ),
        pytest.param("E2", onset({"cue": 600, "learned": 600}), id="E2: no earlier"),
        pytest.param("E2", onset({"cue": 5000, "learned": 600}), id="E2: never with a cue"),
        pytest.param(
            "E3",
            gaze({**CLAWS, "common": CLAWS["rare"]}, variants=("rare", "common")),
            id="E3: no less for the unfamiliar",
        ),
    ],
)
def test_a_claim_does_not_hold_where_one_thing_is_wrong(judged, name, tables):
    assert judged(name, tables)["verdict"] == "does not hold"


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        pytest.param("A1", {}, id="no table"),
        pytest.param(
            "A1", {"test.csv": [row for row in predictions()["test.csv"] if row["memory"] != "gru"]}, id="no GRU"
        ),
        pytest.param(
            "A2", {"test.csv": [row for row in predictions()["test.csv"] if row["sparsity"] != 0.1][:1]}, id="one λ"
        ),
        pytest.param("A3", {"agreement.csv": boundaries()["agreement.csv"]}, id="one of two tables"),
        pytest.param("C1", {}, id="no study yet"),
        pytest.param("D3", gaze({"inter": (1.0, 2.0, 3.0)}), id="another condition"),
        pytest.param("E1", gaze(E1, variants=("learned", "true")), id="no fixed time scale"),
        pytest.param("E2", onset({"learned": 600}), id="no cue"),
        pytest.param("E3", gaze(CLAWS, variants=("rare",)), id="nobody who saw claws often"),
    ],
)
def test_a_claim_is_not_yet_run_where_tables_do_not_tell(judged, name, tables):
    claim = judged(name, tables)
    assert claim["verdict"] == "not yet run"
    assert claim["value"] is claim["low"] is claim["high"] is claim["seeds"] is claim["command"] is None


def test_other_λ_do_not_count_where_the_claim_is_about_one(judged):
    tables = rates()
    tables["openings.csv"] += [{**row, "sparsity": 5.0, "opening_rate": 1.0} for row in tables["openings.csv"]]
    assert judged("A5", tables)["verdict"] == "holds"


def test_gaze_is_judged_at_our_λ_and_the_papers_is_told_beside_it(judged):
    ours, papers = gaze(OBJECT_FIRST)["gaze.csv"], gaze(LATER)["gaze.csv"]
    claim = judged("D2", {"gaze.csv": [{**row, "sparsity": 5.0} for row in papers] + ours})
    assert claim["value"] == pytest.approx(-5.0)
    assert "λ = 5: hand 7 (7 to 7), object -2" in claim["check"]


def test_rivals_are_told_beside_the_claim_but_do_not_judge_it(judged):
    def row(method, f1, what="both", sparsity=None, seed=None):
        return {"method": method, "input": what, "noise": "clean", "f1": f1, "sparsity": sparsity, "seed": seed}

    ours = [row("gates, episodes", 0.9, sparsity=1.0, seed=seed) for seed in SEEDS]
    again = [row("retrained gates, episodes", 0.93, sparsity=1.0, seed=seed) for seed in SEEDS]
    others = [row("PELT", 0.96, "actions"), row("PELT", 0.5), row("random", 0.99)]
    claim = judged("A3", {**boundaries(), "rivals.csv": ours + again + others})
    assert claim["verdict"] == "holds"
    assert "clean: ours 0.90, trained on such sequences 0.93, PELT 0.96 (actions)." in claim["check"]
    assert "missed" in claim["check"]


def test_an_interval_is_that_of_students_t():
    found = claims.estimate([1.0, 2.0, 3.0])
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - 2.48414, 2 + 2.48414), abs=1e-4)
    assert claims.estimate([3.0]) == claims.Estimate(3.0, None, None)
    assert claims.estimate([3.0]).is_above(2.0)
    assert not found.is_above(0.0)


def test_leaving_out_seeds_gives_the_interval_of_a_mean():
    values = [1.0, 2.0, 6.0, 3.0]
    left_out = [(sum(values) - value) / 3 for value in values]
    by_jackknife, plain = claims.jackknife(3.0, left_out), claims.estimate(values)
    assert (by_jackknife.low, by_jackknife.high) == pytest.approx((plain.low, plain.high))


# --- Merging -------------------------------------------------------------------------------------------------------


def judged_at(scale, seeds=SEEDS, name="A1", **changes):
    return {"id": name, "claim": "", "verdict": "holds", "scale": scale, "seeds": list(seeds), **changes}


def test_a_smaller_scale_never_overwrites_a_larger_one():
    order = ("smoke", "demo", "quick", "full")
    for smaller, larger in pairwise(order):
        small, large = judged_at(smaller, range(10)), judged_at(larger, range(2))
        assert claims.merge([large], [small]) == [large]
        assert claims.merge([small], [large]) == [large]


def test_fewer_seeds_never_overwrite_more_but_a_newer_judgement_of_as_many_does():
    before = judged_at("full", range(10), date="2026-05-14")
    assert claims.merge([before], [judged_at("full", range(3))]) == [before]
    newer = judged_at("full", range(10), date="2026-06-01", verdict="does not hold")
    assert claims.merge([before], [newer]) == [newer]


def test_what_was_not_run_overwrites_nothing_and_all_stand_in_order():
    known = [judged_at("smoke", name="B1"), judged_at("quick", name="A1")]
    new = [judged_at(None, (), name=name, verdict="not yet run") for name in ("B1", "A2", "A1")]
    assert [(one["id"], one["verdict"]) for one in claims.merge(known, new)] == [
        ("A1", "holds"),
        ("A2", "not yet run"),
        ("B1", "holds"),
    ]


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "stages.json").write_text(json.dumps({"curves": {}}))
    with pytest.raises(FileError, match="holds no claims: name the"):
        claims.load(tmp_path / "stages.json")
