"""What the rivals find in signals whose events are plain to see, and how they are tuned and compared."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from saccade import sequences
from saccade.checks import InputError
from saccade.events import agreement
from saccade.sequences import Sequences, standardise
from saccade.studies import rivals
from saccade.worlds import scripted
from saccade.worlds.dataset import scripted_sequences

SETTINGS = {"kernel change points": (0.1, 1.0), "PELT": (3.0,), "GSBS": (), "hidden Markov": (3, 0)}


@pytest.fixture(scope="module")
def robot() -> Sequences:
    return sequences.concatenate([scripted_sequences(kind, 6, seed=1) for kind in scripted.KINDS])


def levels(count=12, time=18, seed=0, noise=0.05) -> tuple[np.ndarray, np.ndarray]:
    """Signals of three levels with a little noise, and the steps at which they jump."""
    rng = np.random.default_rng(seed)
    event = np.sort(rng.integers(0, 3, (count, time)), axis=1)
    level = np.array([[-2.0, 0, 1, 0], [0, 2, -1, 0], [2, 1, 0, -2]])
    true = np.zeros((time, count), bool)
    true[1:] = np.diff(event.T, axis=0) != 0
    return level[event] + noise * rng.standard_normal((count, time, 4)), true


def plain(event, **rest) -> Sequences:
    count, time = np.shape(event)
    return Sequences(np.zeros((count, time + 1, 2)), np.zeros((count, time, 1)), event=np.array(event), **rest)


# --- Truth, noise and signals --------------------------------------------------------------------------------------


def test_a_transition_is_a_step_whose_event_differs_from_the_one_before():
    found = rivals.transitions(plain([[0, 0, 1, 1, 2], [3, 3, 3, 3, 3]]))
    assert found.T.tolist() == [[False, False, True, False, True], [False] * 5]


def test_nothing_is_known_next_to_an_unknown_event():
    assert not rivals.transitions(plain([[0, -1, 1, -1, -1]])).any()


def test_sequences_without_events_have_no_transitions_to_find(robot):
    with pytest.raises(InputError, match="no event"):
        rivals.transitions(replace(robot, event=None))


def test_noise_has_the_size_asked_for_and_leaves_the_truth_alone(robot):
    worse = rivals.noisy(robot, 0.01, 0.0, seed=3)
    assert np.std(worse.observation - robot.observation) == pytest.approx(0.01, rel=0.1)
    assert np.array_equal(worse.action, robot.action)
    assert np.array_equal(rivals.transitions(worse), rivals.transitions(robot))


def test_noise_on_actions_stays_within_what_can_be_commanded(robot):
    worse = rivals.noisy(robot, 0.0, 0.4, seed=3)
    assert np.array_equal(worse.observation, robot.observation)
    assert np.abs(worse.action).max() == 1
    inside = np.abs(robot.action) < 0.1
    assert np.std((worse.action - robot.action)[inside]) == pytest.approx(0.4, rel=0.15)


def test_the_same_seed_makes_the_same_noise_and_another_does_not(robot):
    once, again, other = (rivals.noisy(robot, 0.01, 0.1, seed) for seed in (1, 1, 2))
    assert np.array_equal(once.observation, again.observation)
    assert np.array_equal(once.action, again.action)
    assert not np.array_equal(once.observation, other.observation)


def test_without_noise_nothing_changes(robot):
    assert np.array_equal(rivals.noisy(robot, 0.0, 0.0, seed=1).observation, robot.observation)


def test_noise_in_metres_is_not_added_to_what_has_no_metres(robot):
    with pytest.raises(InputError, match="standardised"):
        rivals.noisy(standardise(robot).apply(robot), 0.01, 0.0, seed=1)


def test_a_signal_is_standardised_and_has_a_row_for_each_action(robot):
    scaling = standardise(robot)
    seen, done, both = (rivals.signals(robot, what, scaling) for what in rivals.INPUTS)
    assert seen.shape == (18, 25, 11)
    assert np.array_equal(both, np.concatenate([seen, done], axis=2))
    assert np.allclose(done.mean((0, 1)), 0, atol=1e-4)
    assert np.allclose(done.std((0, 1)), 1, atol=1e-3)


def test_an_unknown_input_or_unequal_lengths_are_refused(robot):
    scaling = standardise(robot)
    with pytest.raises(InputError, match="choose one of actions, both, observations"):
        rivals.signals(robot, "smells", scaling)
    with pytest.raises(InputError, match="differ in length"):
        rivals.signals(replace(robot, length=np.full(18, 20)), "both", scaling)


def test_a_spread_choice_keeps_the_proportion_of_kinds(robot):
    assert np.bincount(robot.kind[rivals.spread(robot, 6)]).tolist() == [2, 2, 2]
    assert len(rivals.spread(robot, None)) == len(rivals.spread(robot, 100)) == 18


# --- Methods -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SETTINGS)
def test_levels_that_jump_are_found_where_they_jump(method):
    signal, true = levels()
    rival = rivals.RIVALS[method]
    found = rival.segment(signal, *rival.fit(signal, *SETTINGS[method]))
    assert found.shape == true.shape
    assert not found[0].any()
    assert agreement(found, true, tolerance=0).f1 > 0.95


@pytest.mark.parametrize("method", ["kernel change points", "PELT"])
def test_a_higher_penalty_finds_fewer_boundaries(method):
    signal, _ = levels(noise=0.5)
    setting = SETTINGS[method][:-1]
    counts = [rivals.RIVALS[method].segment(signal, *setting, penalty).sum() for penalty in (0.1, 2.0, 1000.0)]
    assert counts[0] > counts[1] > counts[2] == 0


def test_the_kernel_width_is_chosen_for_each_sequence_by_itself():
    signal, _ = levels()
    signal[0] *= 100
    together = rivals.kernel(signal, None, 1.0)
    alone = [rivals.kernel(one[None], None, 1.0) for one in signal]
    assert np.array_equal(together, np.concatenate(alone, axis=1))


def test_gsbs_needs_features_to_correlate():
    with pytest.raises(InputError, match="at least 2"):
        rivals.gsbs(np.zeros((1, 10, 1)))


def test_a_state_that_only_last_steps_had_does_not_break_the_hidden_markov_model():
    signal, _ = levels()
    signal[:, -1] += 50
    model = rivals.hidden_markov_model(signal, 4)
    assert rivals.hidden_markov(signal, model)[-1].all()


def test_surprise_is_an_event_where_it_peaks_above_the_threshold():
    surprise = np.array([[9.0, 1, 3, 2, 5, 5, 1, 2]]).T
    assert np.flatnonzero(rivals.surprise_peaks(surprise, 2.5)).tolist() == [2, 4]
    assert np.flatnonzero(rivals.surprise_peaks(surprise, 0.0)).tolist() == [2, 4, 7]


def test_random_boundaries_are_as_many_as_given_and_anywhere_but_first():
    boundary = np.zeros((10, 3000), bool)
    boundary[3, :2000] = boundary[5, :1000] = True
    found = rivals.random_boundaries(boundary, seed=0)
    assert np.array_equal(found.sum(0), boundary.sum(0))
    assert not found[0].any()
    assert found[1:].sum(1) == pytest.approx(3000 / 9, rel=0.2)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(InputError, match=r'ruptures is not installed: pip install "saccade\[rivals\]"'):
        rivals.pelt(np.zeros((1, 10, 2)), 1.0)


# --- Tuning and comparing ------------------------------------------------------------------------------------------


def test_tuning_takes_the_setting_with_the_best_f1():
    signal, true = levels()
    assert rivals.tune("PELT", signal, true, [(0.001,), (3.0,), (1000.0,)]) == ((3.0,), (3.0,))


def test_a_surprise_threshold_is_a_quantile_of_training_surprise():
    surprise = np.tile(np.array([0.0, 1, 0, 10, 0, 1, 0, 10, 0, 0]), (5, 1)).T
    (quantile,), (threshold,) = rivals.tune("surprise peaks", surprise, surprise == 10)
    assert threshold == np.quantile(surprise, quantile)
    assert 1 <= threshold < 10


def test_nothing_can_be_tuned_where_nothing_happens():
    signal, true = levels()
    with pytest.raises(InputError, match="no boundary"):
        rivals.tune("PELT", signal, np.zeros_like(true))


def surprise(of: Sequences) -> np.ndarray:
    """How much the action changed: nobody's model, but enough for a series."""
    return np.square(np.diff(of.action, axis=1, prepend=of.action[:, :1])).sum(2).T


def test_a_comparison_is_a_row_for_each_level_method_and_input(robot, monkeypatch):
    monkeypatch.setitem(rivals.RIVALS, "GSBS", rivals.RIVALS["GSBS"]._replace(most=3))
    rows = rivals.compare(
        robot,
        robot,
        methods=("kernel change points", "GSBS", "surprise peaks", "random"),
        inputs=("actions", "both"),
        levels=(rivals.NOISE[0], rivals.NOISE[-1]),
        surprise=surprise,
        limit=9,
        workers=1,
    )
    assert len(rows) == 2 * (2 + 2 + 1 + 1)
    by = {(row["method"], row["input"], row["noise"]): row for row in rows}
    assert {row["sequences"] for row in rows if row["method"] == "GSBS"} == {3}
    assert {row["sequences"] for row in rows if row["method"] != "GSBS"} == {9}
    kernel = by["kernel change points", "actions", "clean"]
    assert kernel["f1"] > by["kernel change points", "actions", "high"]["f1"]
    assert kernel["f1"] > by["random", "number", "clean"]["f1"]
    assert kernel["parameter"].startswith("gamma ")
    for row in rows:
        assert 0 <= row["f1"] <= 1


def test_what_is_judged_is_what_a_model_would_be_given(robot):
    seen = []
    rivals.compare(
        robot,
        robot,
        methods=("surprise peaks",),
        levels=rivals.NOISE[1:2],
        surprise=lambda given: (seen.append(given), surprise(given))[1],
        limit=6,
        seed=5,
        workers=1,
    )
    level = rivals.NOISE[1]
    expected = rivals.noisy(robot, level.sensory, level.motor, 5)[rivals.spread(robot, 6)]
    assert np.array_equal(seen[1].observation, expected.observation)
    assert np.array_equal(seen[1].action, expected.action)
    assert not np.array_equal(seen[0].observation[0], expected.observation[0])


def test_several_processes_say_the_same_as_one(robot):
    given = {"methods": ("kernel change points",), "inputs": ("actions",), "levels": rivals.NOISE[:1]}
    one, two = (rivals.compare(robot, robot, workers=workers, **given) for workers in (1, 2))
    assert [row | {"seconds": 0, "tuning_seconds": 0} for row in one] == [
        row | {"seconds": 0, "tuning_seconds": 0} for row in two
    ]


def test_an_unknown_method_is_refused(robot):
    with pytest.raises(InputError, match="choose one of"):
        rivals.compare(robot, robot, methods=("guess",))
