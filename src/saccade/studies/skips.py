"""Skip predictions (section V-B, appendix B of the paper; claims B1 to B4): models and sequences in, tidy tables out.

The forward–inverse model sees a sequence up to a step, counted from 1; the skip network then says what the world will
look like at the next boundary. Its predicted positions are compared with where hand, object and goal are now.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saccade.sequences import Sequences
from saccade.studies import rivals
from saccade.studies.segmentation import about
from saccade.studies.study import Ahead, Rows, Study, Tell, ahead, each, kinds, rounded
from saccade.training import Member

# --- Settings ------------------------------------------------------------------------------------------------------

EARLY, LATE = 2, 12
"""The steps that are skipped from: of all sequences, and of those in which the object is then being carried."""
CARRIED = "reach-grasp-transport", "transport"
"""The kind of sequence, and its phase at the late step."""

# --- Distances -----------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A model at one point of its training, and what it is asked about."""

    member: Member
    update: int
    whole: bool
    """Whether it looks at all test sequences, or at those behind curves."""


def distances(study: Study, tell: Tell | None = None) -> dict[str, Rows]:
    """Where skip predictions of the shown models lie over training, and how much seeds differ.

    `skip_distances.csv`: how far each predicted entity is from where each is now. `skip_spread.csv`: how much seeds
    differ. `skip_spread_left_out.csv`: the same at the end of training without one seed at a time, for intervals.
    """
    last = study.recipe.updates
    points = [_Point(member, update, False) for update in study.curve if update != last for member in study.shown]
    points += [_Point(member, last, True) for member in study.shown]

    def of(point: _Point) -> tuple[Rows, np.ndarray]:
        over = study.test if point.whole else study.test_spread
        said = ahead(study.model(point.member, point.update), over, (EARLY, LATE))
        rows = [about(point.member) | {"update": point.update} | row for row in distances_of(said, over)]
        return rows, said.mean[0][:, over.entities["hand"]]

    found = each(of, points, "skip predictions", tell)
    spreads: Rows = []
    left_out: Rows = []
    for update in study.curve:
        over = study.test if update == last else study.test_spread
        here = [(point.member, hand) for point, (_, hand) in zip(points, found, strict=True) if point.update == update]
        hands = np.stack([hand for _, hand in here])
        named = {"sparsity": study.shown[0].sparsity, "update": update}
        spreads += [named | row for row in spread_of(hands, over)]
        if update == last:
            for number, (member, _) in enumerate(here):
                rest = np.delete(hands, number, axis=0)
                left_out += [named | {"left_out": member.seed} | row for row in spread_of(rest, over)]
    return {
        "skip_distances.csv": [row for rows, _ in found for row in rows],
        "skip_spread.csv": spreads,
        "skip_spread_left_out.csv": left_out,
    }


def distances_of(said: Ahead, over: Sequences) -> Rows:
    """How far predicted positions are from where things are now, in metres: a row for each kind, step and pair.

    `deviation` is over sequences. `true_distance` is that of what will be at the next boundary, `now_distance` that of
    what is now. Rows from the late step are of the sequences in which the object is then being carried.
    """
    rows = []
    for place, step in enumerate((EARLY, LATE)):
        now = over.observation[:, step - 1]
        for kind, index in (kinds(over) if step == EARLY else carried(over)).items():
            for predicted, own in over.entities.items():
                for to, other in over.entities.items():
                    there = now[index][:, other]
                    said_there, true_there, now_there = (
                        np.linalg.norm(array[index][:, own] - there, axis=1)
                        for array in (said.mean[place], said.target[place], now)
                    )
                    rows.append(
                        {
                            "kind": kind,
                            "from_step": step,
                            "predicted": predicted,
                            "to": to,
                            "distance": float(said_there.mean()),
                            "deviation": float(said_there.std()),
                            "true_distance": float(true_there.mean()),
                            "now_distance": float(now_there.mean()),
                            "sequences": len(index),
                        }
                    )
    return rows


def carried(over: Sequences) -> dict[str, np.ndarray]:
    """The sequences in which the object is being carried at the late step; no entry if there are none."""
    assert over.event is not None  # scripted sequences have true events
    kind, phase = CARRIED
    index = kinds(over)[kind]
    index = index[np.asarray(over.event)[index, LATE - 1] == over.event_names.index(phase)]
    return {kind: index} if len(index) else {}


def spread_of(hands: Float[np.ndarray, "seeds count 3"], over: Sequences) -> Rows:
    """How much seeds differ in where they expect the hand: a row for each kind, none for fewer than two seeds.

    `spread` is the mean over sequences of the standard deviation over seeds, in metres; `travelled` how far from where
    it is now they expect it, `relative` the one as a share of the other.
    """
    if len(hands) < 2:
        return []
    now = over.observation[:, EARLY - 1][:, over.entities["hand"]]
    spread = np.sqrt(hands.var(0, ddof=1).sum(-1))
    travelled = np.linalg.norm(hands - now, axis=-1).mean(0)
    return [
        {
            "kind": kind,
            "spread": float(spread[index].mean()),
            "travelled": float(travelled[index].mean()),
            "relative": float(spread[index].mean() / travelled[index].mean()),
        }
        for kind, index in kinds(over).items()
    ]


# --- Examples ------------------------------------------------------------------------------------------------------


def examples(study: Study, tell: Tell | None = None) -> dict[str, Any]:
    """`skip_examples.json`: what all seeds at the shown λ predict in the first test sequence of each kind.

    A fourth one is the first sequence in which the object is being carried at the late step.
    """
    test = study.test
    chosen = [(kind, int(index[0]), EARLY) for kind, index in kinds(test).items()]
    chosen += [(kind, int(index[0]), LATE) for kind, index in carried(test).items()]
    over = test[[number for _, number, _ in chosen]]
    said = each(lambda member: ahead(study.model(member), over, (EARLY, LATE)), study.shown, "skip examples", tell)
    made = []
    for place, (kind, number, step) in enumerate(chosen):
        row = (EARLY, LATE).index(step)
        predictions = []
        for member, one in zip(study.shown, said, strict=True):
            mean, deviation = one.mean[row, place], one.deviation[row, place]
            predictions.append(
                {
                    "seed": member.seed,
                    **{name: rounded(mean[list(own)]) for name, own in over.entities.items()},
                    "hand_sd": rounded(deviation[list(over.entities["hand"])]),
                }
            )
        made.append(
            {
                "kind": kind,
                "number": number,
                "from_step": step,
                "observation": rounded(over.observation[place, step - 1]),
                "next": rounded(over.observation[place, _next_transition(over, place, step)]),
                "table_height": round(float(over.columns["table_height"][place]), 5),
                "predictions": predictions,
            }
        )
    return {"skip_examples.json": made}


def _next_transition(over: Sequences, which: int, step: int) -> int:
    """The row of a sequence at which the script's next event after a step begins, or else the last row."""
    later = np.flatnonzero(rivals.transitions(over)[step:, which])
    return int(later[0]) + step if len(later) else over.time - 1


STEPS = {
    "skip predictions": (distances, ("skip_distances.csv", "skip_spread.csv", "skip_spread_left_out.csv")),
    "skip examples": (examples, ("skip_examples.json",)),
}
"""What is measured, one after the other, and which tables each gives."""
