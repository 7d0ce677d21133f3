"""What the paper claims, judged from a study's tables alone (thresholds were fixed before any result was looked at).

Every interval is a 95 % t-interval over seeds; ratios and differences are formed within each seed first. A threshold
has to be met by the mean. That one thing is larger than another has to be shown by the whole interval of their
difference (of a single seed, which has no interval, by the difference). That something does *not* fall, by the mean,
within a stated tolerance. A claim whose tables are missing is not yet run.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from saccade.checks import FileError
from saccade.studies.study import SCALES, SHOWN, Rows, read_json, read_table, write_json
from saccade.worlds.scripted import KINDS

# --- Settings ------------------------------------------------------------------------------------------------------

AS_WELL = 1.1
"""A1: an error is as good as the GRU's if it is at most this many times as large."""
HANDFUL = (0.5e-2, 2e-2)
"""A2: gate rates at the shown λ that are a handful of updates."""
MARK = 0.95
"""A3: the F1 on clean sequences that we aim at. It is told, not judged."""
FOUND = 0.8
"""A4: a share of arrivals that is enough."""
STAYED = 0.02
"""B4: metres by which something predicted to stay may move."""
FELL = 0.01
"""B1, B2: metres by which a distance that should not fall may fall."""
KNOWN = 0.05
"""B1, B2: metres within which the predicted goal lies as soon as positions are predicted at all. A network at birth is
more than a metre off, so that at first all distances fall; a development is counted from here."""
HALF = 0.5
"""B4: an object that goes to the goal is at most this share as far from it at the next boundary as it is now."""

LONG = 2.0
"""D1: steps that are long before."""
EARLY, LATE = 0.2, 0.8
"""D3: shares of training before and after which checkpoints are early and late; an untrained model's gaze is none."""

NOT_YET = "not yet run"
CLAIMS = {
    "A1": ("λ ≤ 1 predicts as well as the GRU", "segmentation"),
    "A2": ("More λ, fewer updates; at λ = 1 a handful", "segmentation"),
    "A3": ("Updates sit at reach→grasp, grasp→transport, transport→hold", "segmentation"),
    "A4": ("Pointing: one update at the goal, in a dimension also used when reaching the object", "segmentation"),
    "A5": ("Stretching is one event", "segmentation"),
    "B1": ("Reaching: the skip-predicted hand nears the object, other distances do not fall", "skips"),
    "B2": ("Pointing: the skip-predicted hand nears the goal", "skips"),
    "B3": ("Stretching: no regularity in skip predictions", "skips"),
    "B4": (
        "Object and goal stay put in skip predictions; from t = 12 of a transport the object goes to the goal",
        "skips",
    ),
    "C1": ("Diverse behaviour: GateL0RD is better on observations, the GRU on actions", None),
    "C2": ("Diverse behaviour: the skip-predicted hand nears the object and travels farther with training", None),
    "D1": ("Intra-event gaze: the hand is attended long before contact, others after it, with more spread", "gaze"),
    "D2": ("Inter-event gaze: the object is attended before contact", "gaze"),
    "D3": ("Both: the hand first, then the object before contact, and this develops with training", "gaze"),
    "D4": ("Pointing, both: the hand first, then the goal before arrival", "gaze"),
    "E1": ("Learned events make gaze at least as goal-predictive as a fixed time scale", "gaze"),
    "E2": ("A salient cue at event boundaries makes goal-predictive gaze come earlier in training", "gaze"),
    "E3": ("Gaze is less goal-predictive for one who moves in unfamiliar ways", "gaze"),
}
"""Each claim in words, and the study that it is judged from."""
CHECKS = {
    "C1": "test MSE against the GRU, 10 seeds",
    "C2": "distances at t = 2 over training",
}

Tables = Mapping[str, Rows]

# --- Means and intervals -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95 % interval, which a single seed does not have."""

    value: float
    low: float | None
    high: float | None

    def is_above(self, limit: float) -> bool:
        """Whether all of it is above a number."""
        return (self.value if self.low is None else self.low) > limit

    def is_below(self, limit: float) -> bool:
        """Whether all of it is below a number."""
        return (self.value if self.high is None else self.high) < limit


def estimate(values: Iterable[float]) -> Estimate:
    """The mean of one number per seed, with its 95 % t-interval."""
    array = np.array(list(values), float)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, None, None)
    half = float(stdtrit(len(array) - 1, 0.975) * array.std(ddof=1) / math.sqrt(len(array)))
    return Estimate(mean, mean - half, mean + half)


def jackknife(whole: float, left_out: Sequence[float]) -> Estimate:
    """A number that only all seeds together have, with a 95 % interval from leaving out one seed at a time."""
    count = len(left_out)
    if count < 2:
        return Estimate(whole, None, None)
    error = math.sqrt((count - 1) / count * float(((np.array(left_out) - np.mean(left_out)) ** 2).sum()))
    half = float(stdtrit(count - 1, 0.975)) * error
    return Estimate(whole, whole - half, whole + half)


@dataclass(frozen=True)
class Judgement:
    """What one claim's check came to."""

    holds: bool
    estimate: Estimate
    check: str
    seeds: tuple[int, ...]


def where(rows: Rows, **wanted: Any) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def by_seed(rows: Rows, column: str) -> dict[int, float]:
    """A column's number for each seed; those without one are left out."""
    return {row["seed"]: float(row[column]) for row in rows if row[column] is not None}


def paired(one: Mapping[int, float], other: Mapping[int, float], how: Callable[[float, float], float]) -> list[float]:
    """Something made of two numbers of each seed that has both."""
    return [how(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]


def difference(one: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    """By how much one exceeds the other, seed by seed; None if no seed has both."""
    values = paired(one, other, lambda a, b: a - b)
    return estimate(values) if values else None


def _seeds(rows: Rows) -> tuple[int, ...]:
    return tuple(sorted({row["seed"] for row in rows}))


def _shown(rows: Rows) -> Rows:
    """Of models with gates at the λ that the paper looks into."""
    return [row for row in rows if row["sparsity"] == SHOWN and row.get("memory") != "gru"]


def _span(found: Estimate, digits: int = 3) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.{digits}g}"
    return f"{found.value:.{digits}g} ({found.low:.{digits}g} to {found.high:.{digits}g})"


# --- A: learned event segmentation ---------------------------------------------------------------------------------


def a1(tables: Tables) -> Judgement | None:
    """Errors of every λ up to 1 as multiples of the GRU's; the value is the worst of them."""
    rows = tables["test.csv"]
    gated, gru = where(rows, memory="gatel0rd"), where(rows, memory="gru")
    found = {}
    for sparsity in sorted({row["sparsity"] for row in gated if row["sparsity"] <= SHOWN}):
        for what in ("observation", "action"):
            own = by_seed(where(gated, sparsity=sparsity), f"{what}_mse")
            ratios = paired(own, by_seed(gru, f"{what}_mse"), lambda a, b: a / b)
            if ratios:
                found[f"{what}s, λ = {sparsity:g}:"] = estimate(ratios)
    if not found:
        return None
    worst = max(found.values(), key=lambda one: one.value)
    told = ", ".join(f"{name} {one.value:.2f}" for name, one in found.items())
    check = f"final test MSE, ratio to the GRU's of the same seed ≤ {AS_WELL} (here the worst): {told}"
    return Judgement(worst.value <= AS_WELL, worst, check, _seeds(gated))


def a2(tables: Tables) -> Judgement | None:
    """The gate rate at λ = 1, and whether rates fall from each λ to the next."""
    gated = where(tables["test.csv"], memory="gatel0rd")
    sparsities = sorted({row["sparsity"] for row in gated})
    if len(sparsities) < 2 or SHOWN not in sparsities:
        return None
    rates = {sparsity: by_seed(where(gated, sparsity=sparsity), "gate_rate") for sparsity in sparsities}
    rises = [difference(rates[more], rates[less]) for less, more in pairwise(sparsities)]
    falls = all(rise is not None and rise.is_below(0.0) for rise in rises)
    shown = estimate(rates[SHOWN].values())
    told = ", ".join(f"λ {sparsity:g}: {np.mean(list(own.values())):.2g}" for sparsity, own in rates.items())
    check = (
        f"gate rate falls from each λ to the next; at λ = {SHOWN:g} between {HANDFUL[0]:g} and {HANDFUL[1]:g}: {told}"
    )
    return Judgement(falls and HANDFUL[0] <= shown.value <= HANDFUL[1], shown, check, _seeds(gated))


def a3(tables: Tables) -> Judgement | None:
    """F1 of episodes of openings at λ = 1, against chance; rivals and our mark are told beside it."""
    rows = where(_shown(tables["agreement.csv"]), kind="all")
    found = {name: where(rows, boundaries=name) for name in ("episodes", "openings", "random", "random openings")}
    better = []
    for ours, chance in (("episodes", "random"), ("openings", "random openings")):
        for measure in ("precision", "recall", "f1"):
            gain = difference(_or_zero(found[ours], measure), _or_zero(found[chance], measure))
            better.append(gain is not None and gain.is_above(0.0))
    told = []
    for name in ("reach-grasp", "grasp-transport", "transport-hold"):
        own = where(_shown(tables["transitions.csv"]), transition=name)
        recall, random = by_seed(own, "recall"), by_seed(own, "random")
        gain = difference(recall, random)
        better.append(gain is not None and gain.is_above(0.0))
        if recall:
            told.append(f"{name} {np.mean(list(recall.values())):.2f} (random {np.mean(list(random.values())):.2f})")
    f1 = _or_zero(found["episodes"], "f1")
    if not f1:
        return None
    parts = [
        _scores("episodes", found["episodes"]),
        _scores("as many at random", found["random"]),
        _scores("every opening", found["openings"]),
        _scores("as many at random", found["random openings"]),
    ]
    check = (
        "precision, recall and F1 within ±1 step above those of as many openings at random, and so the share of each "
        f"transition that has an opening. {'; '.join(parts)}. Found: {', '.join(told)}. {_against(tables, f1)}"
    )
    return Judgement(all(better), estimate(f1.values()), check, _seeds(rows))


def _or_zero(rows: Rows, measure: str) -> dict[int, float]:
    """A score for each seed; a model that marks nothing scores 0."""
    return {row["seed"]: float(row[measure] or 0) for row in rows}


def _scores(name: str, rows: Rows) -> str:
    means = (np.mean(list(_or_zero(rows, measure).values())) for measure in ("precision", "recall", "f1"))
    return f"{name}: " + " / ".join(f"{mean:.2f}" for mean in means)


def _against(tables: Tables, f1: Mapping[int, float]) -> str:
    """How our default boundaries do against each rival's best input at each noise level, and against our mark."""
    reached = "reached" if np.mean(list(f1.values())) >= MARK else "missed"
    mark = f"Mark of {MARK} on clean test sequences: {reached}"
    rows = tables.get("rivals.csv")
    if not rows:
        return f"{mark}; rivals not yet run."
    parts = []
    for level in dict.fromkeys(row["noise"] for row in rows):
        here = where(rows, noise=level)
        own = _shown([row for row in here if row["sparsity"] is not None])
        ours, retrained = (_or_zero(where(own, method=method), "f1") for method in (OURS, RETRAINED))
        best = {}
        for row in here:
            if row["sparsity"] is None and row["method"] != "random":
                best.setdefault((row["method"], row["input"]), []).append(row["f1"] or 0.0)
        means = sorted(((float(np.mean(values)), name) for name, values in best.items()), reverse=True)
        top = {}
        for mean, (method, what) in means:
            top.setdefault(method, f"{method} {mean:.2f} ({what})")
        parts.append(
            f"{level}: ours {_mean(ours)}, trained on such sequences {_mean(retrained)}, " + ", ".join(top.values())
        )
    return f"{mark}. F1 against rivals' best: {'; '.join(parts)}."


def _mean(values: Mapping[int, float]) -> str:
    return f"{np.mean(list(values.values())):.2f}" if values else "not known"


OURS, RETRAINED = "gates, episodes", "retrained gates, episodes"
"""Our gates with default settings, as methods in `rivals.csv`: trained on clean sequences, and at each level anew."""


def a4(tables: Tables) -> Judgement | None:
    """How many arrivals of pointing have an opening, and whether in the dimensions of reaching's contact."""
    arrivals = where(_shown(tables["transitions.csv"]), transition="point-hold")
    recall, random = by_seed(arrivals, "recall"), by_seed(arrivals, "random")
    own = _shown(tables["overlap.csv"])
    overlap, chance, in_use = (by_seed(own, name) for name in ("overlap", "chance", "chance_in_use"))
    if not recall:
        return None
    found, gain, beyond = estimate(recall.values()), difference(overlap, chance), difference(recall, random)
    shared = "nothing opens at arrival"
    if gain is not None:
        shared = (
            f"{np.mean(list(overlap.values())):.2f}, chance {np.mean(list(chance.values())):.2f}, "
            f"difference {_span(gain, 2)}, chance among dimensions in use {np.mean(list(in_use.values())):.2f}"
        )
    check = (
        f"share of arrivals with an opening within ±1 step ≥ {FOUND} and above that with as many openings at random "
        f"({np.mean(list(random.values())):.2f}), and the chance that a dimension that opens there also opens at "
        f"contact with the object above that of any dimension: {shared}"
    )
    marked = found.value >= FOUND and beyond is not None and beyond.is_above(0.0)
    return Judgement(marked and gain is not None and gain.is_above(0.0), found, check, _seeds(arrivals))


def a5(tables: Tables) -> Judgement | None:
    """By how much the opening rate of stretching, after t = 2, exceeds the lower one of the other kinds."""
    rows = [row for row in _shown(tables["openings.csv"]) if row["step"] > 2]
    seeds = _seeds(rows)
    rates = {
        kind: {
            seed: float(np.mean([row["opening_rate"] for row in where(rows, kind=kind, seed=seed)])) for seed in seeds
        }
        for kind in KINDS
    }
    reach, point, stretch = (rates[kind] for kind in KINDS)
    gaps = [difference(stretch, reach), difference(stretch, point)]
    if None in gaps:
        return None
    nearer = max((gap for gap in gaps if gap is not None), key=lambda gap: gap.value)
    told = ", ".join(f"{kind} {np.mean(list(own.values())):.3f}" for kind, own in rates.items())
    check = (
        "opening rate per step after t = 2, stretching minus each other kind, below 0 (here the one nearer to it): "
        f"{told}"
    )
    return Judgement(all(gap is not None and gap.is_below(0.0) for gap in gaps), nearer, check, seeds)


# --- B: skip predictions -------------------------------------------------------------------------------------------


def b1(tables: Tables) -> Judgement | None:
    """By how much the predicted hand's distance to the object changes over training, from t = 2 of reaching."""
    return _nears(tables, KINDS[0], "object")


def b2(tables: Tables) -> Judgement | None:
    """By how much the predicted hand's distance to the goal changes over training, from t = 2 of pointing."""
    return _nears(tables, KINDS[1], "goal")


def _nears(tables: Tables, kind: str, target: str) -> Judgement | None:
    rows = where(_shown(tables["skip_distances.csv"]), kind=kind, from_step=2)
    seeds = _seeds(rows)
    changes: dict[str, dict[int, float]] = {"hand": {}, "object": {}, "goal": {}}
    ends: dict[int, float] = {}
    now: dict[int, float] = {}
    began: dict[int, int] = {}
    for seed in seeds:
        own = where(rows, seed=seed)
        hand = where(own, predicted="hand")
        known = [row for row in where(own, predicted="goal", to="goal") if row["distance"] < KNOWN]
        began[seed] = min((row["update"] for row in known), default=min(row["update"] for row in own))
        for to, change in changes.items():
            curve = {row["update"]: row for row in where(hand, to=to)}
            last = curve[max(curve)]
            change[seed] = last["distance"] - curve[began[seed]]["distance"]
            if to == target:
                ends[seed], now[seed] = last["distance"], last["now_distance"]
    if not seeds:
        return None
    estimates = {to: estimate(change.values()) for to, change in changes.items()}
    others = {to: one for to, one in estimates.items() if to != target}
    holds = estimates[target].is_below(0.0) and all(one.value >= -FELL for one in others.values())
    check = (
        f"change of the distance (m) from predicted hand to {target} between the first checkpoint whose predicted "
        f"goal is within {KNOWN} m (update {min(began.values())} to {max(began.values())}) and the last, below 0; the "
        f"others fall by no more than {FELL} m: {', '.join(f'{to} {_span(one, 2)}' for to, one in others.items())}. "
        f"At the end {np.mean(list(ends.values())):.3f} m, the hand itself now {np.mean(list(now.values())):.3f} m"
    )
    return Judgement(holds, estimates[target], check, seeds)


def b3(tables: Tables) -> Judgement | None:
    """How many times as much seeds differ in stretching as in the kind in which they differ second most."""
    rows = _shown(tables["skip_spread.csv"])
    if not rows:
        return None
    last = max(row["update"] for row in rows)
    spreads = {row["kind"]: row["spread"] for row in where(rows, update=last)}
    left_out = where(_shown(tables["skip_spread_left_out.csv"]), update=last)
    seeds = tuple(sorted({row["left_out"] for row in left_out})) or _seeds(_shown(tables["skip_distances.csv"]))
    without = [
        _ratio({row["kind"]: row["spread"] for row in where(left_out, left_out=seed)}) for seed in seeds if left_out
    ]
    found = jackknife(_ratio(spreads), without)
    told = ", ".join(f"{kind} {spread:.3f}" for kind, spread in spreads.items())
    check = (
        "deviation over seeds of the predicted hand (m) from t = 2: stretching as a multiple of the larger of the "
        f"other two, above 1 (interval by leaving out one seed at a time): {told}"
    )
    return Judgement(found.is_above(1.0), found, check, seeds)


def _ratio(spreads: Mapping[str, float]) -> float:
    reach, point, stretch = (spreads[kind] for kind in KINDS)
    return stretch / max(reach, point)


def b4(tables: Tables) -> Judgement | None:
    """How far predicted objects and goals are from where they are, at worst, and where carried objects go."""
    rows = _shown(tables["skip_distances.csv"])
    if not rows:
        return None
    last = [row for row in rows if row["update"] == max(row["update"] for row in rows)]
    moved = {}
    for kind in KINDS:
        for what in ("object", "goal"):
            own = by_seed(where(last, kind=kind, from_step=2, predicted=what, to=what), "distance")
            if own:
                moved[f"{what}, {kind}"] = estimate(own.values())
    carried = where(last, from_step=12, predicted="object", to="goal")
    if not moved or not carried:
        return None
    worst = max(moved.values(), key=lambda one: one.value)
    left = estimate(paired(by_seed(carried, "distance"), by_seed(carried, "now_distance"), lambda a, b: a / b))
    check = (
        f"from t = 2, distance (m) of predicted object and goal from where they are < {STAYED} (here the worst): "
        f"{', '.join(f'{name} {one.value:.3f}' for name, one in moved.items())}; from t = 12 of a transport the "
        f"object's predicted distance to the goal is at most {HALF} of what it is now: {_span(left, 2)}"
    )
    return Judgement(worst.value < STAYED and left.value <= HALF, worst, check, _seeds(last))


# --- D, E: where models look ---------------------------------------------------------------------------------------


def _gaze(tables: Tables, condition: str, variant: str = "learned") -> Rows:
    """Leads (t_e - t_EB, in steps) of the models with our λ, over training."""
    return where(tables["gaze.csv"], condition=condition, variant=variant, sparsity=_ours(tables))


def _ours(tables: Tables) -> float:
    """Our λ: the larger one, since the paper's is told beside it."""
    return max((float(row["sparsity"]) for row in tables["gaze.csv"]), default=0.0)


def _finished(rows: Rows) -> Rows:
    last = max((row["update"] for row in rows), default=0)
    return where(rows, update=last)


def _leads(rows: Rows) -> dict[str, dict[int, float]]:
    """For each entity, the lead of every seed at the end of training."""
    end = _finished(rows)
    return {entity: by_seed(where(end, entity=entity), "lead") for entity in ("hand", "object", "goal")}


def _told(tables: Tables, condition: str) -> str:
    """The leads of all entities at every λ."""
    rows = where(tables["gaze.csv"], condition=condition, variant="learned")
    parts = []
    for sparsity in sorted({row["sparsity"] for row in rows}, reverse=True):
        leads = _leads(where(rows, sparsity=sparsity))
        told = ", ".join(f"{entity} {_span(estimate(own.values()), 2)}" for entity, own in leads.items() if own)
        parts.append(f"λ = {sparsity:g}: {told}")
    return "; ".join(parts)


def d1(tables: Tables) -> Judgement | None:
    """When the hand is first attended if only the next step counts."""
    rows = _gaze(tables, "intra")
    leads = _leads(rows)
    if not leads["hand"]:
        return None
    hand = estimate(leads["hand"].values())
    after = all(estimate(leads[entity].values()).is_above(0.0) for entity in ("object", "goal"))
    spread = {entity: float(np.std(list(own.values()))) for entity, own in leads.items()}
    share = {entity: by_seed(where(_finished(rows), entity=entity), "share") for entity in leads}
    attended = ", ".join(f"{entity} {np.mean(list(own.values())):.2f}" for entity, own in share.items())
    check = (
        f"t_e − t_EB (steps): the hand's below −{LONG:g}, object's and goal's above 0 and with more deviation over "
        f"seeds: {_told(tables, 'intra')}; deviation over seeds "
        + ", ".join(f"{entity} {one:.2f}" for entity, one in spread.items())
        + f"; share of sequences in which it is attended at all: {attended}"
    )
    wider = min(spread["object"], spread["goal"]) > spread["hand"]
    return Judgement(hand.is_below(-LONG) and after and wider, hand, check, _seeds(rows))


def d2(tables: Tables) -> Judgement | None:
    """When the object is first attended if only the next boundary counts."""
    rows = _gaze(tables, "inter")
    own = _leads(rows)["object"]
    if not own:
        return None
    found = estimate(own.values())
    check = f"t_e − t_EB (steps) of the object below 0: {_told(tables, 'inter')}"
    return Judgement(found.is_below(0.0), found, check, _seeds(rows))


def d3(tables: Tables) -> Judgement | None:
    """When the object is first attended if both count, and how that changes over training."""
    rows = _gaze(tables, "both")
    found = _ahead(tables, rows, "object", "both")
    if found is None:
        return None
    last = max(row["update"] for row in rows)
    own = where(rows, entity="object")
    early = _mean_lead([row for row in own if 0 < row["update"] <= EARLY * last])
    late = _mean_lead([row for row in own if row["update"] >= LATE * last])
    change = difference(late, early)
    develops = change is not None and change.is_below(0.0)
    told = "not known" if change is None else _span(change, 2)
    check = f"{found.check}; the object's in the last fifth of training minus that in the first, below 0: {told}"
    return Judgement(found.holds and develops, found.estimate, check, found.seeds)


def d4(tables: Tables) -> Judgement | None:
    """When the goal of pointing is first attended if both count."""
    return _ahead(tables, _gaze(tables, "point"), "goal", "point")


def _ahead(tables: Tables, rows: Rows, target: str, condition: str) -> Judgement | None:
    """Whether the hand is attended first, then the target, and this before the hand gets there."""
    leads = _leads(rows)
    if not leads[target]:
        return None
    found = estimate(leads[target].values())
    order = difference(leads["hand"], leads[target])
    first = order is not None and order.is_below(0.0)
    check = f"t_e − t_EB (steps): the hand's below the {target}'s, and this below 0: {_told(tables, condition)}"
    return Judgement(first and found.is_below(0.0), found, check, _seeds(rows))


def _mean_lead(rows: Rows) -> dict[int, float]:
    return {seed: float(np.mean(list(leads))) for seed in _seeds(rows) if (leads := _leads_of(rows, seed))}


def _leads_of(rows: Rows, seed: int) -> list[float]:
    return [float(row["lead"]) for row in where(rows, seed=seed) if row["lead"] is not None]


TARGETS = (("inter", "object"), ("both", "object"), ("point", "goal"))
"""Conditions, and the entity whose lead says how goal-predictive gaze is in each; the first one is judged.

Learned events act through the next boundary alone, so that is where their part shows undiluted.
"""


def e1(tables: Tables) -> Judgement | None:
    """By how much gaze comes earlier with learned events than every six steps, and than with true events."""
    parts, gaps = [], []
    for condition, target in TARGETS:
        learned, fixed, true = (
            _leads(_gaze(tables, condition, variant))[target] for variant in ("learned", "every6", "true")
        )
        gap = difference(learned, fixed)
        if gap is None:
            return None
        gaps.append(gap)
        supervised = difference(learned, true)
        against = "" if supervised is None else f", minus true events {_span(supervised, 2)}"
        parts.append(f"{condition}, {target}: minus every six steps {_span(gap, 2)}{against}")
    check = (
        "lead (steps) of the target with learned events minus that with others, the first of these not above 0 by its "
        f"whole interval: {'; '.join(parts)}"
    )
    holds = not gaps[0].is_above(0.0)
    return Judgement(holds, gaps[0], check, _seeds(_gaze(tables, TARGETS[0][0], "every6")))


def e2(tables: Tables) -> Judgement | None:
    """By how many updates the first goal-predictive gaze comes earlier with a cue."""
    parts, gaps = [], []
    for condition, target in TARGETS:
        onsets = [_onset(where(_gaze(tables, condition, variant), entity=target)) for variant in ("cue", "learned")]
        gap = difference(*onsets)
        if gap is None:
            return None
        gaps.append(gap)
        told = " and ".join(f"{np.mean(list(own.values())):.0f}" for own in onsets)
        parts.append(f"{condition}, {target}: {told}, difference {_span(gap, 2)}")
    check = (
        "the update from which the target's mean lead stays below 0 (all updates if it does not), with a cue and "
        f"without; the first difference below 0: {'; '.join(parts)}"
    )
    return Judgement(gaps[0].is_below(0.0), gaps[0], check, _seeds(_gaze(tables, TARGETS[0][0], "cue")))


def _onset(rows: Rows) -> dict[int, float]:
    """For each seed, the first update from which on the lead is below 0 at all checkpoints."""
    found = {}
    for seed in _seeds(rows):
        own = sorted(((row["update"], row["lead"]) for row in where(rows, seed=seed)), reverse=True)
        found[seed] = float(own[0][0])
        for update, lead in own:
            if lead is None or lead >= 0:
                break
            found[seed] = float(update)
    return found


def e3(tables: Tables) -> Judgement | None:
    """By how much later a claw's object is attended by models that rarely saw claws than by those that often did."""
    parts, gaps = [], []
    for claw, hand in (("claw inter", "inter"), ("claw", "both")):
        rare, common = (_leads(_gaze(tables, claw, variant))["object"] for variant in ("rare", "common"))
        gap = difference(rare, common)
        within = difference(rare, _leads(_gaze(tables, hand, "rare"))["object"])
        if gap is None or within is None:
            return None
        gaps.append(gap)
        parts.append(f"{hand}: {_span(gap, 2)}, claw minus hand in the same models {_span(within, 2)}")
    check = (
        "lead (steps) of the object a claw reaches for, in models that rarely saw claws minus those that often did, "
        f"the first of these above 0: {'; '.join(parts)}"
    )
    return Judgement(gaps[0].is_above(0.0), gaps[0], check, _seeds(_gaze(tables, "claw", "rare")))


JUDGES: dict[str, tuple[Callable[[Tables], Judgement | None], tuple[str, ...]]] = {
    "A1": (a1, ("test.csv",)),
    "A2": (a2, ("test.csv",)),
    "A3": (a3, ("agreement.csv", "transitions.csv")),
    "A4": (a4, ("transitions.csv", "overlap.csv")),
    "A5": (a5, ("openings.csv",)),
    "B1": (b1, ("skip_distances.csv",)),
    "B2": (b2, ("skip_distances.csv",)),
    "B3": (b3, ("skip_spread.csv", "skip_spread_left_out.csv", "skip_distances.csv")),
    "B4": (b4, ("skip_distances.csv",)),
    **{f"D{number}": (judge, ("gaze.csv",)) for number, judge in enumerate((d1, d2, d3, d4), 1)},
    **{f"E{number}": (judge, ("gaze.csv",)) for number, judge in enumerate((e1, e2, e3), 1)},
}
"""Who judges each claim, and the tables that it takes."""

# --- All claims ----------------------------------------------------------------------------------------------------


def judge(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """All claims of the paper with their verdicts, from a folder of tables and the `provenance.json` among them."""
    folder = Path(folder)
    made = read_json(folder / "provenance.json")
    scale, recipe = made["scale"]["name"], made["recipe"]["name"]
    tables = {path.name: read_table(path) for path in sorted(folder.glob("*.csv"))}
    found = []
    for name, (claim, study) in CLAIMS.items():
        function, needed = JUDGES.get(name, (None, None))
        judged = function(tables) if function and needed and all(table in tables for table in needed) else None
        check = CHECKS[name] if function is None else (function.__doc__ or "").partition("\n")[0]
        entry: dict[str, Any] = {"id": name, "claim": claim, "check": check, "value": None}
        if judged is None or needed is None:
            entry |= {"low": None, "high": None, "verdict": NOT_YET, "seeds": None}
            entry |= dict.fromkeys(("scale", "recipe", "command", "date"))
        else:
            entry |= {
                "check": judged.check,
                "value": _short(judged.estimate.value),
                "low": _short(judged.estimate.low),
                "high": _short(judged.estimate.high),
                "verdict": "holds" if judged.holds else "does not hold",
                "seeds": list(judged.seeds),
                "scale": scale,
                "recipe": recipe,
                "command": f"saccade reproduce {study} --scale {scale} --recipe {recipe}",
                "date": made["tables"][needed[0]]["date"],
            }
        found.append(entry)
    return found


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def save(claims: Sequence[Mapping[str, Any]], path: str | os.PathLike) -> None:
    """Writes claims as JSON, over what was there."""
    write_json(Path(path), claims, indent=1)


def load(path: str | os.PathLike) -> list[dict[str, Any]]:
    """The claims that `save` wrote."""
    known = read_json(Path(path))
    if not isinstance(known, list) or not all(isinstance(one, dict) and one.get("id") in CLAIMS for one in known):
        raise FileError(f"{path} holds no claims: name the claims.json of a study's folder, or the folder")
    return known


def merge(known: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All claims, each as judged last, but never from a smaller scale or fewer seeds than it was judged from before."""
    merged = {claim["id"]: dict(claim) for claim in known}
    for claim in new:
        before = merged.get(claim["id"])
        if before is None or _weight(claim) >= _weight(before):
            merged[claim["id"]] = dict(claim)
    order = list(CLAIMS)
    return sorted(merged.values(), key=lambda claim: order.index(claim["id"]) if claim["id"] in order else len(order))


def _weight(claim: Mapping[str, Any]) -> tuple[int, int]:
    """How much a verdict rests on: its scale, then its number of seeds; nothing if it was not run."""
    if claim["verdict"] == NOT_YET:
        return -1, 0
    scales = list(SCALES)
    return scales.index(claim["scale"]) if claim["scale"] in scales else 0, len(claim["seeds"] or ())
