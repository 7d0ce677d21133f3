"""What the study of skip predictions measures, on predictions made by hand."""

import numpy as np
import pytest

from saccade.sequences import Sequences
from saccade.studies import skips
from saccade.studies.study import Ahead
from saccade.worlds.scripted import EVENTS, KINDS

TIME = 14
ENTITIES = {"hand": (0, 1, 2), "object": (3, 4, 5), "goal": (8, 9, 10)}


@pytest.fixture
def over():
    """Two sequences of each kind, hand, object and goal at rest, 0.1 m apart; the first reach carries at step 12."""
    event = np.repeat([[EVENTS.index("reach")], [EVENTS.index("point")], [EVENTS.index("stretch")]], 2, axis=0)
    event = np.broadcast_to(event, (6, TIME)).copy()
    event[0, 11:] = EVENTS.index("transport")
    event[1, 12:] = EVENTS.index("transport")
    observation = np.zeros((6, TIME + 1, 11))
    observation[..., 3], observation[..., 8] = 0.1, 0.2
    return Sequences(
        observation,
        np.zeros((6, TIME, 4)),
        event=event,
        event_names=EVENTS,
        kind=np.repeat(np.arange(3), 2),
        kind_names=KINDS,
        entities=ENTITIES,
    )


def said(over, *, hand=0.0, thing=0.1):
    """Predictions, from both steps, of a hand and an object so far along x, the goal where it is."""
    mean = np.stack([over.observation[:, step - 1] for step in (skips.EARLY, skips.LATE)])
    mean[..., 0], mean[..., 3] = hand, thing
    return Ahead(mean, np.full_like(mean, 0.01), np.stack([over.observation[:, TIME - 1]] * 2))


def row(rows, **wanted):
    found = [one for one in rows if all(one[name] == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def test_distances_are_from_what_is_predicted_to_where_things_are_now(over):
    rows = skips.distances_of(said(over, hand=0.08), over)
    near = row(rows, kind=KINDS[0], from_step=2, predicted="hand", to="object")
    assert near["distance"] == pytest.approx(0.02)
    assert near["now_distance"] == near["true_distance"] == pytest.approx(0.1)
    assert near["deviation"] == pytest.approx(0, abs=1e-7)
    assert near["sequences"] == 2
    assert row(rows, kind=KINDS[1], from_step=2, predicted="hand", to="goal")["distance"] == pytest.approx(0.12)
    assert row(rows, kind=KINDS[1], from_step=2, predicted="goal", to="goal")["distance"] == 0


def test_late_distances_are_of_sequences_in_which_the_object_is_being_carried(over):
    assert {kind: index.tolist() for kind, index in skips.carried(over).items()} == {KINDS[0]: [0]}
    late = [one for one in skips.distances_of(said(over, thing=0.2), over) if one["from_step"] == skips.LATE]
    assert {(one["kind"], one["sequences"]) for one in late} == {(KINDS[0], 1)}
    assert row(late, predicted="object", to="goal")["distance"] == pytest.approx(0)
    assert row(late, predicted="object", to="goal")["now_distance"] == pytest.approx(0.1)
    assert skips.carried(over[2:]) == {}


def test_spread_is_the_deviation_over_seeds(over):
    hands = np.zeros((2, 6, 3))
    hands[:, :4, 0] = 0.1
    hands[1, 4:, 0] = 0.2  # seeds differ in stretching only
    rows = skips.spread_of(hands, over)
    assert row(rows, kind=KINDS[0])["spread"] == 0
    stretch = row(rows, kind=KINDS[2])
    assert stretch["spread"] == pytest.approx(0.2 / np.sqrt(2))
    assert stretch["travelled"] == pytest.approx(0.1)
    assert stretch["relative"] == pytest.approx(np.sqrt(2))


def test_one_seed_has_no_spread(over):
    assert skips.spread_of(np.zeros((1, 6, 3)), over) == []
