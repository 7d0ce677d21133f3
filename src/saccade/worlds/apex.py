"""Plans actions for any MuJoCo task with a cost: iCEM, for many episodes at once, guided by a policy if there is one.

iCEM (Pinneri et al. 2020) tries sequences of actions in a model, draws the next ones around the best, and executes
the first action of the best of all. APEX (Pinneri et al. 2021) adds a policy that learns from the planner and guides
it: its own actions are where planning starts, and trajectories are pulled towards it where their costs differ little.

Chance follows from an episode's seed and step alone: other episodes, planned beside it, and the number of threads
change nothing.
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo comes without types.

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import mujoco
import numpy as np
from jaxtyping import Float
from mujoco.rollout import Rollout

from saccade.checks import InputError
from saccade.machine import cores

_TOGETHER = 2**21  # numbers: some 16 MB


@dataclass(frozen=True)
class Settings:
    """How much is tried and how; the defaults are the paper's."""

    horizon: int = 30
    trajectories: int = 40  # in the first iteration
    iterations: int = 3
    decay: float = 1.25  # each iteration tries so many times fewer than the one before, but two for each elite
    elites: int = 10
    kept: float = 0.3  # share of elites that are tried again in the next iteration and, shifted, in the next step
    colour: float = 3.0  # the noise's power falls with this power of frequency: 0 is white
    spread: float = 0.5  # the noise's first standard deviation
    smoothing: float = 0.1  # share of mean and spread that stays as it was
    pull: float = 0.1  # the policy's pull, in units of what costs of elites differ by

    def tried(self, iteration: int) -> int:
        """How many new trajectories an iteration draws."""
        return max(int(self.trajectories * self.decay**-iteration), 2 * self.elites)


GUIDED = Settings(horizon=20, trajectories=20, iterations=2, elites=6)
"""What is enough where a good policy guides: a quarter of the work."""

# A cost tells for every episode, trajectory and step what it costs to be in a state after an action.
Cost = Callable[
    [Float[np.ndarray, "episodes tried time state"], Float[np.ndarray, "episodes tried time action"]],
    Float[np.ndarray, "episodes tried time"],
]


@runtime_checkable
class Model(Protocol):
    """Where actions lead, and how many numbers a state has."""

    size: int

    def roll(
        self, state: Float[np.ndarray, "episodes state"], actions: Float[np.ndarray, "episodes tried time action"]
    ) -> Float[np.ndarray, "episodes tried time state"]:
        """The state after every action."""
        ...


@runtime_checkable
class Guide(Protocol):
    """What a policy says to a planner."""

    def imagine(self, horizon: int) -> Float[np.ndarray, "episodes time action"]:
        """What it would do from here on."""
        ...

    def distance(
        self,
        states: Float[np.ndarray, "episodes tried time state"],
        actions: Float[np.ndarray, "episodes tried time action"],
    ) -> Float[np.ndarray, "episodes tried time"]:
        """How far each action is from what it would have done there."""
        ...


class MujocoModel:
    """Where actions lead, according to a MuJoCo model: many trajectories at once, by MuJoCo's own threads.

    A state is what `mujoco.mj_getState` gives for `mjSTATE_FULLPHYSICS`. Each action lasts `frame_skip` physics steps;
    `command` turns actions into the model's controls, where these are not the same.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        frame_skip: int,
        command: Callable[[np.ndarray], np.ndarray] = lambda action: action,
        workers: int | None = None,
    ):
        self.frame_skip, self.command = frame_skip, command
        self._model = model
        self._data = [mujoco.MjData(model) for _ in range(workers or cores())]
        self._threads = Rollout(nthread=len(self._data))
        self.size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)

    def __enter__(self) -> "MujocoModel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads."""
        self._threads.close()

    def roll(
        self, state: Float[np.ndarray, "episodes state"], actions: Float[np.ndarray, "episodes tried time action"]
    ) -> Float[np.ndarray, "episodes tried time state"]:
        """The state after every action."""
        episodes, tried, time, _ = actions.shape
        controls = self.command(actions.reshape(episodes * tried, time, -1))
        start = np.repeat(state, tried, axis=0)
        reached = np.empty((len(start), time, self.size))
        # Every physics step is written down first, and seldom wanted: not too many at once.
        together = max(1, _TOGETHER // (time * self.frame_skip * self.size))
        for part in (slice(first, first + together) for first in range(0, len(start), together)):
            told = np.repeat(controls[part], self.frame_skip, axis=1)
            passed = self._threads.rollout(self._model, self._data, start[part], told)[0]
            reached[part] = np.asarray(passed)[:, self.frame_skip - 1 :: self.frame_skip]
        return reached.reshape(episodes, tried, time, -1)


@dataclass(frozen=True)
class Plans:
    """What planners remember from one step to the next, for each episode."""

    seeds: tuple[tuple[int, ...], ...]
    step: int
    mean: Float[np.ndarray, "episodes time action"]
    elites: Float[np.ndarray, "episodes kept time action"] | None
    agreed: Float[np.ndarray, "episodes action"]  # the elites' mean first action: less noisy than the best one's

    def __len__(self) -> int:
        return len(self.seeds)


class Planner:
    """Chooses actions in a model of the world, for as many episodes at once as there are states."""

    def __init__(
        self,
        model: Model,
        low: Float[np.ndarray, " action"],
        high: Float[np.ndarray, " action"],
        settings: Settings = Settings(),
    ):
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InputError(f"actions lie between {low} and {high}: wanted finite bounds, the lower ones first")
        if settings.horizon < 2 or settings.iterations < 1 or not 1 <= settings.elites <= settings.trajectories:
            raise InputError(f"{settings}: wanted a horizon of 2, an iteration, and no more elites than trajectories")
        self.model, self.settings = model, settings
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)

    def begin(self, seeds: Sequence[int | tuple[int, ...]]) -> Plans:
        """Nothing planned yet, for one episode per seed."""
        names = tuple(seed if isinstance(seed, tuple) else (seed,) for seed in seeds)
        middle = (self.low + self.high) / 2
        mean = np.broadcast_to(middle, (len(names), self.settings.horizon, len(middle))).copy()
        return Plans(names, 0, mean, None, mean[:, 0])

    def plan(
        self,
        plans: Plans,
        state: Float[np.ndarray, "episodes state"],
        cost: Cost,
        guide: Guide | None = None,
    ) -> tuple[Plans, Float[np.ndarray, "episodes action"]]:
        """The best action found in each state, and what to remember for the next step."""
        if state.shape != (len(plans), self.model.size):
            raise InputError(f"state has shape {state.shape}: wanted {(len(plans), self.model.size)}")
        settings = self.settings
        half = (self.high - self.low) / 2
        streams = [np.random.Generator(np.random.Philox(np.random.SeedSequence((*s, plans.step)))) for s in plans.seeds]
        mean, spread = plans.mean, np.broadcast_to(settings.spread * half, plans.mean.shape)
        imagined = None if guide is None else guide.imagine(settings.horizon)[:, None]
        if imagined is not None and plans.step == 0:
            mean = imagined[:, 0]
        elites = actions = None
        for iteration in range(settings.iterations):
            tries = [self._around(mean, spread, settings.tried(iteration), streams)]
            if iteration == 0:
                tries += [added for added in (plans.elites, imagined) if added is not None]
            elif elites is not None:
                tries.append(elites[:, : self.kept])
            if iteration == settings.iterations - 1:
                tries.append(mean[:, None])
            actions = np.concatenate(tries, axis=1)
            costs = self._costs(state, actions, cost, guide)
            best = np.argsort(costs, axis=1, kind="stable")[:, : settings.elites]
            elites = np.take_along_axis(actions, best[..., None, None], axis=1)
            mean, spread = (
                settings.smoothing * before + (1 - settings.smoothing) * now
                for before, now in ((mean, elites.mean(1)), (spread, elites.std(1)))
            )
        assert elites is not None
        # What comes after the horizon is not known yet: the mean stays as it ends, elites end in something new.
        ends = self._around(mean, np.broadcast_to(settings.spread * half, mean.shape), self.kept, streams)[:, :, -1:]
        after = replace(
            plans,
            step=plans.step + 1,
            mean=np.concatenate([mean[:, 1:], mean[:, -1:]], axis=1),
            agreed=elites[:, :, 0].mean(1),
            elites=np.concatenate([elites[:, : self.kept, 1:], ends], axis=2),
        )
        return after, elites[:, 0, 0]

    @property
    def kept(self) -> int:
        """How many elites are tried again."""
        return int(self.settings.kept * self.settings.elites)

    def _around(
        self, mean: np.ndarray, spread: np.ndarray, count: int, streams: list[np.random.Generator]
    ) -> np.ndarray:
        noise = np.stack([coloured(rng, self.settings.colour, (count, *mean.shape[1:])) for rng in streams])
        return np.clip(mean[:, None] + spread[:, None] * noise, self.low, self.high)

    def _costs(self, state: np.ndarray, actions: np.ndarray, cost: Cost, guide: Guide | None) -> np.ndarray:
        """What each trajectory costs; one whose simulation burst costs more than all others."""
        settings, states = self.settings, self.model.roll(state, actions)
        costs = cost(states, actions).sum(-1)
        costs = np.where(np.isfinite(costs), costs, np.inf)
        if guide is None or not settings.pull:
            return costs
        away = np.where(np.isfinite(costs), guide.distance(states, actions).sum(-1), np.inf)
        weight = settings.pull * _range(costs, settings.elites)[:, None]
        return costs + weight * away / np.maximum(_range(away, settings.elites), 1e-9)[:, None]


def _range(costs: np.ndarray, elites: int) -> np.ndarray:
    """How much the best differ: what a second cost may weigh so that it decides among good ones only."""
    best = np.sort(costs, axis=1)[:, :elites]
    return np.where(np.isfinite(best[:, -1]), best[:, -1] - best[:, 0], 0.0)


def coloured(
    rng: np.random.Generator, colour: float, shape: tuple[int, int, int]
) -> Float[np.ndarray, "count time action"]:
    """Normal noise of variance 1 whose power falls with frequency as 1 / f^colour along the middle axis."""
    count, time, action = shape
    frequency = np.fft.rfftfreq(time)
    amplitude = np.maximum(frequency, 1 / time) ** (-colour / 2)
    real, imaginary = rng.standard_normal((2, count, len(frequency), action)) * amplitude[:, None]
    whole = [0, -1] if time % 2 == 0 else [0]  # frequencies that have no phase
    real[:, whole] *= np.sqrt(2)
    imaginary[:, whole] = 0
    weights = 2 * amplitude**2
    weights[0] /= 2
    weights[-1] /= 2 if time % 2 == 0 else 1
    variance = 2 * weights.sum() / time**2
    return np.fft.irfft(real + 1j * imaginary, n=time, axis=1) / np.sqrt(variance)
