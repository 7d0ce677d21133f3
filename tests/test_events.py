"""Boundaries, skip targets, episodes, segments and agreement, against definitions or another's implementation."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ruptures.metrics import precision_recall
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, jaccard_score

from saccade import events
from saccade.checks import InputError

steps = st.sampled_from([2, 7, 14])  # few shapes, since each is compiled


@st.composite
def boundary_pairs(draw):
    length = draw(st.integers(1, 15))
    return draw(arrays(bool, (length,))), draw(arrays(bool, (length,)))


@st.composite
def ragged(draw):
    """Random gates of a few sequences of unequal lengths: (gate, lengths)."""
    length, count = draw(steps), draw(st.sampled_from([1, 3]))
    lengths = draw(st.lists(st.integers(2, length), min_size=count, max_size=count))
    gate = draw(arrays(np.float64, (length, count, 3), elements=st.sampled_from([0.0, 0.0, 0.0, 0.2, 1.0])))
    return gate, np.asarray(lengths)


def test_the_example_of_the_specification():
    gate = np.zeros((10, 16))
    gate[3 - 1, 4] = gate[7 - 1, 0] = 0.5  # the paper counts steps from 1
    observation = jnp.arange(1.0, 11)[:, None]
    boundary = events.boundaries(jnp.asarray(gate))
    assert (np.flatnonzero(boundary) + 1).tolist() == [3, 7, 10]
    targets = events.skip_targets(observation, boundary)[:, 0]
    assert targets.tolist() == [3, 3, 7, 7, 7, 7, 10, 10, 10]
    originals = events.skip_targets(observation, boundary, from_opening="next_step")[:, 0]
    assert originals.tolist() == [3, 3, 4, 7, 7, 7, 8, 10, 10]


@given(ragged())
def test_skip_targets_are_what_the_definition_says(case):
    gate, lengths = case
    mask = np.arange(len(gate))[:, None] < lengths
    boundary = events.boundaries(jnp.asarray(gate), jnp.asarray(mask))
    observation = np.random.default_rng(0).normal(size=(*gate.shape[:2], 2))
    targets = {
        way: events.skip_targets(jnp.asarray(observation), boundary, from_opening=way)
        for way in ("next_boundary", "next_step")
    }
    for i, length in enumerate(lengths):
        opened = {t for t in range(length) if any(gate[t, i] > 0)}
        times = opened | {length - 1}
        assert set(np.flatnonzero(boundary[:, i])) == times
        assert set(np.flatnonzero(events.openings(jnp.asarray(gate), jnp.asarray(mask))[:, i])) == opened
        for t in range(length - 1):
            following = min(other for other in times if other > t)
            assert (targets["next_boundary"][t, i] == observation[following, i]).all()
            at = t + 1 if t in times else following
            assert (targets["next_step"][t, i] == observation[at, i]).all()


def test_strength_is_how_far_the_latent_moved():
    latent = jnp.asarray([[1.0, 0.0], [1.0, 0.0], [0.5, -1.0]])
    assert events.strength(latent, jnp.asarray([0.0, 0.0])).tolist() == [1.0, 0.0, 1.5]


@given(
    arrays(np.float64, (12, 3), elements=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7])),
    st.sampled_from([0.0, 0.3, 0.6]),
    st.integers(0, 3),
)
def test_episodes_are_bursts_at_their_strongest_step(strength, minimum, gap):
    opening = strength > 0
    given = events.episodes(opening, strength, minimum=minimum, gap=gap)
    for i in range(strength.shape[1]):
        bursts = []
        for t in np.flatnonzero(opening[:, i] & (strength[:, i] >= minimum)):
            if bursts and t - bursts[-1][-1] <= gap:
                bursts[-1].append(t)
            else:
                bursts.append([t])
        strongest = [max(burst, key=lambda t: (strength[t, i], -t)) for burst in bursts]
        assert np.flatnonzero(given[:, i]).tolist() == strongest


def test_episodes_by_default_join_neighbours_and_leave_out_the_weak():
    strength = np.asarray([0.0, 0.2, 0.5, 0.9, 0.4, 0.0, 0.1, 0.0, 0.6])
    assert np.flatnonzero(events.episodes(strength > 0, strength)).tolist() == [3, 8]


@given(ragged())
def test_segments_follow_one_another_and_carry_their_code(case):
    gate, lengths = case
    mask = np.arange(len(gate))[:, None] < lengths
    opening = np.asarray(events.openings(jnp.asarray(gate), jnp.asarray(mask)))
    latent = np.where(opening, np.random.default_rng(0).normal(size=opening.shape), 0).cumsum(0)[..., None]
    table = events.segments(opening, latent, mask)
    for i, length in enumerate(lengths):
        mine = table.sequence == i
        assert table.start[mine].tolist() == sorted({0, *np.flatnonzero(opening[:, i])})
        assert table.end[mine].tolist() == [*table.start[mine][1:], length]
        for start, end, code in zip(table.start[mine], table.end[mine], table.code[mine], strict=True):
            assert (latent[start:end, i] == code).all()


def test_segments_of_a_single_sequence():
    table = events.segments([False, False, True, False], np.arange(4.0)[:, None])
    assert (table.sequence.tolist(), table.start.tolist(), table.end.tolist()) == ([0, 0], [0, 2], [2, 4])


@given(boundary_pairs(), st.integers(0, 4))
def test_agreement_makes_as_many_pairs_as_can_be(pair, tolerance):
    found, true = pair
    near = np.abs(np.flatnonzero(found)[:, None] - np.flatnonzero(true)) <= tolerance
    matched = int(near[linear_sum_assignment(near, maximize=True)].sum())
    given = events.agreement(found, true, tolerance=tolerance)
    assert (given.found, given.true, given.matched) == (found.sum(), true.sum(), matched)


@given(st.lists(st.integers(2, 9), min_size=2, max_size=6), st.integers(-1, 1), st.integers(0, 1))
def test_agreement_is_that_of_ruptures_where_boundaries_lie_apart(gaps, shift, tolerance):
    places = np.cumsum([gap + 4 for gap in gaps])
    length = places[-1] + 10
    true, found = np.zeros(length, bool), np.zeros(length, bool)
    true[places] = True
    found[places[::2] + shift] = True
    found[length - 2] = True
    precision, recall = precision_recall(
        [*np.flatnonzero(true), length], [*np.flatnonzero(found), length], margin=tolerance + 1
    )
    given = events.agreement(found, true, tolerance=tolerance)
    assert given.precision == pytest.approx(precision)
    assert given.recall == pytest.approx(recall)
    if precision + recall:
        assert given.f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_agreement_of_nothing_is_undefined_not_perfect():
    nothing = events.agreement(np.zeros(5, bool), np.zeros(5, bool))
    assert all(np.isnan(value) for value in (nothing.precision, nothing.recall, nothing.f1))


@given(boundary_pairs())
def test_adjusted_rand_is_that_of_scikit_learn(pair):
    found, true = pair
    wanted = adjusted_rand_score(events.labels(true), events.labels(found))
    assert events.adjusted_rand(found, true) == pytest.approx(wanted)


@given(boundary_pairs())
def test_covering_is_the_mean_best_overlap(pair):
    found, true = (events.labels(boundary) for boundary in pair)
    wanted = sum(
        (true == label).sum() * max(jaccard_score(true == label, found == other) for other in set(found))
        for label in set(true)
    ) / len(true)
    assert events.covering(*pair) == pytest.approx(wanted)


@given(ragged(), st.integers(0, 2))
def test_agreement_over_many_sequences_is_the_sum_of_each_alone(case, tolerance):
    gate, lengths = case
    mask = np.arange(len(gate))[:, None] < lengths
    found, true = gate[..., 0] > 0, gate[..., 1] > 0
    together = events.agreement(found, true, tolerance=tolerance, mask=mask)
    alone = [events.agreement(found[:n, i], true[:n, i], tolerance=tolerance) for i, n in enumerate(lengths)]
    for count in ("found", "true", "matched"):
        assert getattr(together, count) == sum(getattr(one, count) for one in alone)
    for measure in (events.covering, events.adjusted_rand):
        each = [measure(found[:n, i], true[:n, i]) for i, n in enumerate(lengths)]
        np.testing.assert_allclose(measure(found, true, mask=mask), np.asarray(each))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: events.agreement([True], [True, False]), r"found has shape \(1,\), true \(2,\): wanted the same"),
        (lambda: events.agreement([], []), "wanted the same"),
        (lambda: events.agreement([True], [True], tolerance=-1), "tolerance is -1: wanted a number of steps"),
        (lambda: events.agreement([True], [True], mask=[True, True]), "mask has shape"),
        (lambda: events.episodes([True], [1.0, 2.0]), "strength"),
        (lambda: events.episodes([True], [1.0], gap=-1), "gap is -1"),
        (lambda: events.segments([True, False], np.zeros((3, 2))), "latent has shape"),
        (lambda: events.segments([], np.zeros((0, 2))), "with at least one step"),
        (lambda: events.openings(jnp.zeros(3)), r"gate has shape \(3,\): wanted \(time, ..., latent\)"),
        (
            lambda: events.boundaries(jnp.zeros((3, 2, 4)), jnp.ones((3, 1), bool)),
            r"mask has shape \(3, 1\): wanted \(3, 2\), as gate has",
        ),
        (
            lambda: events.skip_targets(jnp.zeros((4, 2)), jnp.ones(3, bool)),
            r"boundary has shape \(3,\): wanted \(4,\), as observation has",
        ),
        (lambda: events.strength(jnp.zeros((3, 2)), jnp.zeros(3)), r"initial has shape \(3,\): wanted \(2,\)"),
        (lambda: events.skip_targets(jnp.zeros((1, 2)), jnp.ones(1, bool)), "length 1: wanted at least 2"),
        (
            lambda: events.skip_targets(jnp.zeros((2, 2)), jnp.ones(2, bool), from_opening="never"),
            "'never' is unknown: choose one of next_boundary, next_step",
        ),
    ],
)
def test_wrong_input_is_told_what_was_wanted(call, wanted, untyped):
    with pytest.raises(InputError, match=wanted):
        call()
