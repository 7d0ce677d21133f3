"""What the segmentation study measures, on openings placed by hand."""

import jax
import numpy as np
import pytest

from saccade import EventModel, preset
from saccade.sequences import Sequences
from saccade.studies import segmentation
from saccade.studies.study import Seen
from saccade.worlds.scripted import EVENTS, KINDS

TIME, LATENT = 10, 4
PHASES = (
    ("reach",) * 3 + ("grasp",) * 2 + ("transport",) * 3 + ("hold",) * 2,
    ("point",) * 6 + ("hold",) * 4,
    ("stretch",) * 10,
)
TRUE = ((3, 5, 8), (6,), ())


@pytest.fixture(scope="module")
def over():
    """One sequence of each kind."""
    event = np.array([[EVENTS.index(phase) for phase in phases] for phases in PHASES])
    rng = np.random.default_rng(0)
    observation, action = rng.normal(size=(3, TIME + 1, 11)), rng.normal(size=(3, TIME, 4))
    return Sequences(observation, action, event=event, event_names=EVENTS, kind=np.arange(3), kind_names=KINDS)


def seen(*openings):
    """A memory in which these (step, sequence, dimension) open, wide enough to count."""
    gate = np.zeros((TIME, 3, LATENT))
    for step, sequence, dimension in openings:
        gate[step, sequence, dimension] = 0.9
    latent = np.cumsum(gate, axis=0)
    return Seen(np.zeros((3, LATENT)), latent, gate, gate.any(2), gate.sum(2))


PERFECT = seen((3, 0, 0), (5, 0, 1), (8, 0, 2), (6, 1, 0))


def row(rows, **wanted):
    found = [one for one in rows if all(one[name] == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def test_openings_at_the_script_s_transitions_agree_fully(over):
    rows = segmentation.agreements(PERFECT, over, seed=5)
    for boundaries in ("openings", "episodes"):
        score = row(rows, boundaries=boundaries, kind="all")
        assert (score["found"], score["true"], score["matched"]) == (4, 4, 4)
        assert score["precision"] == score["recall"] == score["f1"] == 1
    assert row(rows, boundaries="random", kind="all")["found"] == 4
    assert row(rows, boundaries="random openings", kind=KINDS[2])["found"] == 0


def test_an_opening_at_the_first_step_or_two_steps_off_agrees_with_nothing(over):
    rows = segmentation.agreements(seen((0, 0, 0), (8, 1, 0)), over, seed=5)
    score = row(rows, boundaries="openings", kind="all")
    assert (score["found"], score["matched"]) == (1, 0)


def test_recall_is_told_for_each_sort_of_transition(over):
    found = segmentation.transitions(seen((4, 0, 0), (8, 0, 0), (2, 1, 0)), over, seed=5)
    assert {one["transition"]: one["recall"] for one in found} == {
        "reach-grasp": 1.0,  # opened one step late
        "grasp-transport": 1.0,  # the same one, a step early
        "transport-hold": 1.0,
        "point-hold": 0.0,
    }
    assert all(one["count"] == 1 for one in found)


def test_opening_rates_are_shares_of_sequences_and_of_gates(over):
    rates = segmentation.openings(PERFECT, over)
    assert len(rates) == 3 * TIME
    contact = row(rates, kind=KINDS[0], step=4)
    assert (contact["opening_rate"], contact["gate_rate"], contact["strength"]) == (1.0, 1 / LATENT, 0.9)
    assert row(rates, kind=KINDS[2], step=4)["opening_rate"] == 0


def test_overlap_is_above_chance_where_arrival_opens_what_contact_opens(over):
    same = segmentation.overlap(segmentation.dimensions(PERFECT, over))
    assert same["overlap"] == 1.0
    assert same["chance"] == 0.25
    assert same["in_use"] == 3
    other = segmentation.overlap(segmentation.dimensions(seen((3, 0, 0), (6, 1, 3)), over))
    assert other["overlap"] == 0
    assert np.isnan(segmentation.overlap(segmentation.dimensions(seen((3, 0, 0)), over))["overlap"])


def test_surprise_is_how_unlikely_what_was_seen_and_done_was(over):
    model = EventModel(preset(), key=jax.random.key(0))
    found = segmentation.surprise(model, over)
    assert found.shape == (TIME, 3)
    assert (found[0] == found[1:].min()).all()
    odd = over.observation.copy()
    odd[1, 4] += 10
    odd = Sequences(odd, over.action)
    assert segmentation.surprise(model, odd)[4, 1] > found[4, 1] + 10
    np.testing.assert_allclose(segmentation.surprise(model, odd)[1:, 0], found[1:, 0], rtol=1e-4)
