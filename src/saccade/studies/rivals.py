"""How well established segmentation methods find the scripted transitions: what our gates have to beat (claim A3).

Every method is a function of a signal and its own settings that gives boundaries, `(time, count)`, a boundary being
the first step of a new event, as in `saccade.events`. `compare` tunes each on training sequences *at every noise level
anew*, which our model is not, and scores it on test sequences as our gates are scored. The packages that methods come
from are in the extra `rivals`.
"""

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from saccade.checks import InputError, check_choice
from saccade.events import agreement
from saccade.sequences import Scaling, Sequences, standardise

# --- Settings ------------------------------------------------------------------------------------------------------


class Noise(NamedTuple):
    """How much Gaussian noise is added, as standard deviations."""

    name: str
    sensory: float
    """On every dimension of the observation, in metres."""
    motor: float
    """On every dimension of the recorded action, in the action's own units."""


NOISE = (
    Noise("clean", 0.0, 0.0),
    Noise("low", 0.005, 0.1),
    Noise("middle", 0.01, 0.2),
    Noise("high", 0.02, 0.4),
)
INPUTS = ("observations", "actions", "both")
TRAINING = 300
"""Training sequences that settings are chosen on."""
GSBS_MOST = 960
"""Test sequences for GSBS, which takes some 0.1 s for each."""

GAMMAS = (None, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # None: ruptures' own, from each sequence's median distance
KERNEL_PENALTIES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0)
PELT_PENALTIES = (0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 32.0)
STATES = (2, 3, 4, 5, 6, 7, 8, 10, 12)
STARTS = (0, 1, 2)  # k-means starts of the hidden-Markov model: what it finds depends much on them
QUANTILES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99)

Signal = Float[np.ndarray, "count time features"]
Boundaries = Bool[np.ndarray, "time count"]

# --- Truth, noise and signals --------------------------------------------------------------------------------------


def transitions(sequences: Sequences) -> Boundaries:
    """The steps at which the script's phase differs from the one before; never the first, nor next to an unknown one.

    The script decides its phase from what it sees at a step, before it acts: the step's action is the first that shows
    the new phase, the next observation the first that can.
    """
    if sequences.event is None:
        raise InputError("these sequences have no event: wanted the true event of every step, as scripted ones have")
    event = np.asarray(sequences.event).T
    changed = np.zeros(event.shape, bool)
    changed[1:] = (event[1:] != event[:-1]) & (event[1:] >= 0) & (event[:-1] >= 0)
    return changed


def noisy(sequences: Sequences, sensory: float, motor: float, seed: int) -> Sequences:
    """The same sequences as worse senses would have recorded them: the world and its true events stay as they were.

    `sensory` and `motor` are standard deviations in the units of observation and action; actions stay in [-1, 1].
    """
    if sensory < 0 or motor < 0:
        raise InputError(f"sensory is {sensory}, motor {motor}: wanted standard deviations, 0 or more")
    if "standardised" in sequences.origin:
        raise InputError("these sequences are standardised: noise has physical units; add it first, then standardise")
    rng = np.random.default_rng(seed)
    observation = rng.standard_normal(sequences.observation.shape, np.float32)
    action = rng.standard_normal(sequences.action.shape, np.float32)
    return replace(
        sequences,
        # Without noise, not even an action beyond the bounds is touched.
        observation=sequences.observation + np.float32(sensory) * observation,
        action=np.clip(sequences.action + np.float32(motor) * action, -1, 1) if motor else sequences.action,
        origin={**sequences.origin, "noise": {"sensory": sensory, "motor": motor, "seed": seed}},
    )


def signals(sequences: Sequences, what: str, scaling: Scaling) -> Signal:
    """What a method is shown at every step, standardised: one of INPUTS."""
    check_choice("what", what, INPUTS)
    if sequences.length is not None:
        raise InputError("these sequences differ in length: wanted all of the same, which is what rivals can segment")
    scaled = scaling.apply(sequences)
    observation, action = scaled.observation[:, :-1], scaled.action
    parts = {"observations": [observation], "actions": [action], "both": [observation, action]}
    return np.concatenate(parts[what], axis=2)


def spread(sequences: Sized, count: int | None) -> np.ndarray:
    """The numbers of `count` sequences (None: all), evenly spread, so that kinds keep their proportion."""
    count = len(sequences) if count is None else min(count, len(sequences))
    return np.arange(count) * len(sequences) // count


# --- Methods -------------------------------------------------------------------------------------------------------


def kernel(signal: Signal, gamma: float | None, penalty: float) -> Boundaries:
    """Kernel change-point detection (ruptures, Gaussian kernel), of any width `gamma` or ruptures' own."""
    ruptures = _package("ruptures")
    params = None if gamma is None else {"gamma": gamma}

    def begins(one):  # a new detector each time, since it would keep the first sequence's width
        return ruptures.KernelCPD("rbf", min_size=1, params=params).fit_predict(one, pen=penalty)

    return _each(begins, signal)


def pelt(signal: Signal, penalty: float) -> Boundaries:
    """PELT (ruptures) for jumps of the mean: with a Gaussian kernel it would be the same as `kernel`."""
    ruptures = _package("ruptures")
    return _each(lambda one: ruptures.Pelt("l2", min_size=1, jump=1).fit_predict(one, pen=penalty), signal)


def gsbs(signal: Signal) -> Boundaries:
    """Greedy state boundary search (statesegmentation), with as many states as it finds best, from two on.

    It compares patterns over features by correlation, so it wants several of them.
    """
    if signal.shape[2] < 2:
        raise InputError(f"signal has {signal.shape[2]} features: wanted at least 2 for GSBS to correlate")
    package = _package("statesegmentation")

    def begins(one):
        search = package.GSBS(kmax=max(one.shape[0] // 2, 2), x=one)  # half the steps: its authors' advice
        search.fit(False)
        return np.flatnonzero(search.bounds)

    with warnings.catch_warnings():  # it tests samples of one, and correlates constants
        warnings.simplefilter("ignore")
        return _each(begins, signal.astype(float))


def hidden_markov(signal: Signal, model: Any) -> Boundaries:
    """Where the most probable path through a hidden-Markov model's states changes its state."""
    return _each(lambda one: 1 + np.flatnonzero(np.diff(model.predict(one))), signal)


def hidden_markov_model(training: Signal, states: int, start: int = 0) -> Any:
    """A Gaussian hidden-Markov model (hmmlearn) fitted to training sequences."""
    package = _package("hmmlearn.hmm")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # whether it converged is not the question, F1 is
    model = package.GaussianHMM(states, n_iter=50, random_state=start)
    model.fit(training.reshape(-1, training.shape[2]), [training.shape[1]] * len(training))
    never_left = model.transmat_.sum(1) == 0  # by a state that only last steps had: no path may be refused for it
    model.transmat_[never_left] = np.eye(states)[never_left]
    return model


def surprise_peaks(surprise: Float[np.ndarray, "time count"], threshold: float) -> Boundaries:
    """Event segmentation theory's rule: where surprise is above a threshold and no smaller than on either side.

    `surprise[t]` is how unexpected what is seen and done at step t was, given all before. The first step never counts.
    """
    before, after = np.full_like(surprise, np.inf), np.full_like(surprise, -np.inf)
    before[1:], after[:-1] = surprise[:-1], surprise[1:]
    return (surprise > before) & (surprise >= after) & (surprise > threshold)


def random_boundaries(boundary: Boundaries, seed: int) -> Boundaries:
    """As many boundaries in every sequence as given, at random steps; never the first."""
    height = np.random.default_rng(seed).random(boundary.shape)
    height[0] = np.inf
    return height.argsort(0).argsort(0) < boundary[1:].sum(0)


def _each(begins: Callable[[np.ndarray], Sequence[int] | np.ndarray], signal: Signal) -> Boundaries:
    """The boundaries of all sequences, from a function that says where one sequence's events begin."""
    found = np.zeros((signal.shape[1], signal.shape[0]), bool)
    for number, one in enumerate(signal):
        found[[begin for begin in begins(one) if begin < len(one)], number] = True  # ruptures also tells the end
    return found


def _package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        raise InputError(f'{missing} is not installed: pip install "saccade[rivals]"') from error


# --- Tuning and comparing ------------------------------------------------------------------------------------------


class Rival(NamedTuple):
    """A method, the settings that are tried, and what has to be learned from training sequences for each."""

    segment: Callable[..., Boundaries]
    """Given the signal and what `fit` gives."""
    names: tuple[str, ...] = ()
    grid: tuple[tuple[Any, ...], ...] = ((),)
    fit: Callable[..., tuple[Any, ...]] = lambda training, *setting: setting
    """Given the training signal and one of `grid`."""
    most: int | None = None
    """How many test sequences are enough for a slow one."""
    package: str | None = None


RIVALS = {
    "kernel change points": Rival(
        kernel, ("gamma", "penalty"), tuple(product(GAMMAS, KERNEL_PENALTIES)), package="ruptures"
    ),
    "PELT": Rival(pelt, ("penalty",), tuple(product(PELT_PENALTIES)), package="ruptures"),
    "GSBS": Rival(gsbs, most=GSBS_MOST, package="statesegmentation"),
    "hidden Markov": Rival(
        hidden_markov,
        ("states", "start"),
        tuple(product(STATES, STARTS)),
        lambda training, states, start: (hidden_markov_model(training, states, start),),
        package="hmmlearn",
    ),
    "surprise peaks": Rival(
        surprise_peaks,
        ("quantile",),
        tuple(product(QUANTILES)),
        lambda training, quantile: (float(np.quantile(training, quantile)),),
    ),
    "random": Rival(random_boundaries, ("seed",), ((0,),)),
}


def tune(
    method: str, training: np.ndarray, true: Boundaries, grid: Iterable[tuple[Any, ...]] | None = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The settings with the best F1 on training sequences, and the arguments of `segment` that they lead to.

    `training` is what `segment` is given: a signal, or surprise. The first of several that are equally good.
    """
    check_choice("method", method, RIVALS)
    if not true.any():
        raise InputError("the training sequences have no boundary: wanted some, to choose settings by")
    rival = RIVALS[method]
    fitted = ((setting, rival.fit(training, *setting)) for setting in (rival.grid if grid is None else grid))
    if len(rival.grid) == 1 and grid is None:
        return next(fitted)
    return max(fitted, key=lambda pair: agreement(rival.segment(training, *pair[1]), true).f1)


def compare(
    train: Sequences,
    test: Sequences,
    *,
    methods: Sequence[str] = tuple(RIVALS),
    inputs: Sequence[str] = INPUTS,
    levels: Sequence[Noise] = NOISE,
    surprise: Callable[[Sequences], Float[np.ndarray, "time count"]] | None = None,
    limit: int | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """A row for each noise level, method and input: settings, precision, recall, F1 within one step, and seconds.

    Both train and test are sequences in their own units. A model to compare with sees the very same test sequences if
    given `noisy(test, level.sensory, level.motor, seed)`. `surprise` is a model's, of whatever sequences it is given;
    without it there are no surprise peaks. `limit`: at most so many test sequences, evenly spread. Random boundaries
    are as many as true ones in each sequence. `workers`: processes, by default one for each core.
    """
    for method in methods:
        check_choice("method", method, RIVALS)
        if package := RIVALS[method].package:
            _package(package)
    scaling = standardise(train)
    learned = train[spread(train, TRAINING)]
    judged = spread(test, limit)
    tasks = []
    for level in levels:
        # Another seed for training: the same noise on both would be something to learn.
        pair = noisy(learned, *level[1:], seed + 1), noisy(test, *level[1:], seed)[judged]
        true = transitions(pair[0]), transitions(pair[1])
        shown = {what: tuple(signals(one, what, scaling) for one in pair) for what in inputs}
        for method in methods:
            if method == "random":
                tasks.append((method, "number", level, true, true))
            elif method == "surprise peaks":
                if surprise is not None:
                    tasks.append((method, "both", level, tuple(np.asarray(surprise(one)) for one in pair), true))
            else:
                tasks += [(method, what, level, signal, true) for what, signal in shown.items()]
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        return [_row(task) for task in tasks]
    # Not forked: JAX's threads would not survive it.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(_row, tasks))


def _row(task) -> dict[str, Any]:
    """Tunes and scores one method: what one process does at a time."""
    method, what, level, (training, shown), (training_true, true) = task
    rival = RIVALS[method]
    started = time.perf_counter()
    setting, arguments = tune(method, training, training_true)
    tuned = time.perf_counter()
    if rival.most is not None:
        chosen = spread(shown, rival.most)
        shown, true = shown[chosen], true[:, chosen]
    found = rival.segment(shown, *arguments)
    ended = time.perf_counter()
    score = agreement(found, true)
    return {
        "method": method,
        "input": what,
        "noise": level.name,
        "sensory": level.sensory,
        "motor": level.motor,
        "parameter": ", ".join(f"{name} {value}" for name, value in zip(rival.names, setting, strict=True)),
        "precision": score.precision,
        "recall": score.recall,
        "f1": score.f1,
        "sequences": true.shape[1],
        "seconds": ended - tuned,
        "tuning_seconds": tuned - started,
    }
