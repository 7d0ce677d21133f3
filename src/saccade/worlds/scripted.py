"""Scripted movements in the Fetch world, with the script's own phase at every step as ground truth for segmentation.

Three kinds: reach-grasp-transport, point, stretch; and, in no usual set, `claw`: reach-grasp-transport along one axis
at a time, as the claw of a vending machine moves. The scripts see what a model sees, the observation, and move the hand
straight towards a target, fast far away and slower near it. Every sequence has its own stream of random numbers, named
by seed, split, kind, index and try: neither the number of workers nor how a set is cut into calls changes a byte.
"""

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saccade.checks import InputError, SaccadeError, check_choice
from saccade.worlds.fetch import (
    ACTION,
    FINGERS,
    GOAL,
    HAND,
    NEAR,
    OBJECT,
    OBSERVATION,
    Fetch,
    check_heights,
    place,
)

KINDS = ("reach-grasp-transport", "point", "stretch")
CLAW = "claw"
SPLITS = ("train", "validation", "test")
EVENTS = ("reach", "grasp", "transport", "hold", "point", "stretch")
REACH, GRASP, TRANSPORT, HOLD, POINT, STRETCH = range(len(EVENTS))
STEPS = 25
MOTOR_NOISE = 0.05
# 10 cm below and above the usual table: every goal the environment draws is reached there within 2 cm. On higher tables
# the arm, pulled at its tip, sinks too far below goals high up; the robot's model sets no such limit below.
TABLE_HEIGHTS = (0.3, 0.5)

ARRIVED = 0.02  # metres between hand or object and goal at which transporting and pointing end
ASIDE = 0.07  # metres by which an object to be grasped may lie beside the hand: from further, fingers push it away
ON_AXIS = 0.008  # metres off an axis' target at which a claw goes on with the next axis
BUMPED = 0.01  # metres an object may move before it is grasped
BETWEEN = np.array([0.012, 0.012, 0.012])  # metres off the object's middle at which the fingers may close
_BEGINNING: dict[str, int] = dict(zip((*KINDS, CLAW), (REACH, POINT, STRETCH, REACH), strict=True))
_GRASPING = (KINDS[0], CLAW)
_TOGETHER = 256  # sequences moved at once: threads seldom wait for each other, and little memory
_TRIES = 100  # per sequence, before something must be wrong


@dataclass(frozen=True)
class Generated:
    """Scripted sequences of one kind, time on the second axis, and how many tries were thrown away to get them."""

    observation: np.ndarray  # (count, 26, 11) float32, the last one after the last action
    action: np.ndarray  # (count, 25, 4) float32
    event: np.ndarray  # (count, 25) int8, an index into EVENTS for every action
    table_height: np.ndarray  # (count,) float32, metres
    discarded: int


@dataclass(frozen=True)
class _Draw:
    """What chance decides about one try before it begins."""

    table_height: float
    object_position: np.ndarray
    goal: np.ndarray
    command: np.ndarray  # the motor command a stretching sequence repeats
    noise: np.ndarray  # (25, 4)


def generate(
    kind: str,
    count: int,
    *,
    seed: int,
    split: str = "train",
    first: int = 0,
    table_height: float | tuple[float, float] = TABLE_HEIGHTS,
    workers: int | None = None,
    world: Fetch | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Generated:
    """`count` sequences of one kind, from number `first` on in the endless row that `seed` and `split` name.

    Tries that fail are thrown away and made again: a reach-grasp-transport must end with the object within 5 cm of the
    goal, a pointing hand within 2 cm of it, and nothing but a grasp may move the object. `progress` is called with how
    many are done and how many are wanted. `world` saves building a new one where many calls follow each other.
    """
    check_choice("kind", kind, (*KINDS, CLAW))
    check_choice("split", split, SPLITS)
    for name, given in (("count", count), ("first", first), ("seed", seed)):
        if not isinstance(given, int | np.integer) or given < 0:
            raise InputError(f"{name} is {given!r}: wanted a whole number from 0 on")
    heights = check_heights(table_height)
    if world is not None:
        return _generate(world, kind, count, seed, split, first, heights, progress)
    with Fetch(workers) as own:
        return _generate(own, kind, count, seed, split, first, heights, progress)


def _generate(
    world: Fetch,
    kind: str,
    count: int,
    seed: int,
    split: str,
    first: int,
    heights: tuple[float, float],
    progress: Callable[[int, int], None] | None,
) -> Generated:
    made = Generated(
        np.empty((count, STEPS + 1, len(OBSERVATION)), np.float32),
        np.empty((count, STEPS, len(ACTION)), np.float32),
        np.empty((count, STEPS), np.int8),
        np.empty(count, np.float32),
        0,
    )
    waiting = deque((slot, 0) for slot in range(count))
    discarded = done = 0
    while waiting:
        tries = [waiting.popleft() for _ in range(min(_TOGETHER, len(waiting)))]
        draws = [_draw(world, heights, kind, seed, split, first + slot, attempt) for slot, attempt in tries]
        observation, action, event = _play(world, kind, draws)
        kept = _succeeded(kind, observation, event)
        for (slot, attempt), draw, good, *arrays in zip(tries, draws, kept, observation, action, event, strict=True):
            if good:
                made.observation[slot], made.action[slot], made.event[slot] = arrays
                made.table_height[slot] = draw.table_height
            elif attempt + 1 < _TRIES:
                waiting.append((slot, attempt + 1))
            else:
                raise SaccadeError(
                    f"{kind} sequence {first + slot} failed {_TRIES} times with table heights {heights[0]:g} to "
                    f"{heights[1]:g} m: choose heights nearer to 0.4"
                )
        discarded += int((~kept).sum())
        done += int(kept.sum())
        if progress:
            progress(done, count)
    return Generated(made.observation, made.action, made.event, made.table_height, discarded)


def _draw(
    world: Fetch, heights: tuple[float, float], kind: str, seed: int, split: str, index: int, attempt: int
) -> _Draw:
    """One try's chance, from a stream that depends on its name alone."""
    name = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(f"{split} {kind}".encode()), index, attempt))
    rng = np.random.Generator(np.random.Philox(name))
    height = float(np.float32(rng.uniform(*heights)))  # as it is stored, so that a stored sequence can be played again
    home = world.home(height)
    object_position, goal = place(home, rng)
    while kind in _GRASPING and abs(object_position[1] - home.hand[1]) > ASIDE:
        object_position, goal = place(home, rng)
    command = rng.uniform(-1, 1, size=len(ACTION))
    command[2] = abs(command[2])  # downwards the table would end the movement after a few steps
    return _Draw(height, object_position, goal, command, rng.normal(0, MOTOR_NOISE, size=(STEPS, len(ACTION))))


def _play(world: Fetch, kind: str, draws: list[_Draw]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Acts out the script in every draw's world: observations, actions and phases."""
    state = world.start(
        np.array([draw.table_height for draw in draws]),
        np.array([draw.object_position for draw in draws]),
        np.array([draw.goal for draw in draws]),
    )
    command = np.array([draw.command for draw in draws])
    noise = np.array([draw.noise for draw in draws])
    observation = np.empty((len(draws), STEPS + 1, len(OBSERVATION)))
    action = np.empty((len(draws), STEPS, len(ACTION)), np.float32)
    event = np.empty((len(draws), STEPS), np.int8)
    observation[:, 0] = state.observation
    phase = np.full(len(draws), _BEGINNING[kind], np.int8)
    for step in range(STEPS):
        phase = _next_phase(phase, observation[:, max(step - 1, 0)], state.observation)
        wanted = command if kind == "stretch" else _wanted(kind, phase, state.observation)
        event[:, step] = phase
        action[:, step] = np.clip(wanted + noise[:, step], -1, 1)
        state = world.step(state, action[:, step])
        observation[:, step + 1] = state.observation
    return observation, action, event


def _next_phase(phase: np.ndarray, past: np.ndarray, now: np.ndarray) -> np.ndarray:
    """The phase of the coming action. Phases only go forward."""
    between_fingers = (np.abs(now[:, OBJECT] - now[:, HAND]) < BETWEEN).all(1)
    opening, was = now[:, FINGERS].sum(1), past[:, FINGERS].sum(1)
    grasped = (opening < 0.056) & (was - opening < 0.001)
    carried = _length(now[:, GOAL] - now[:, OBJECT]) < ARRIVED
    pointed = _length(now[:, GOAL] - now[:, HAND]) < ARRIVED
    # Later phases first: no more than one step forward at a time, so that no phase is skipped.
    for before, after, reached in (
        (POINT, HOLD, pointed),
        (TRANSPORT, HOLD, carried),
        (GRASP, TRANSPORT, grasped),
        (REACH, GRASP, between_fingers),
    ):
        phase = np.where((phase == before) & reached, after, phase)
    return phase


def _wanted(kind: str, phase: np.ndarray, now: np.ndarray) -> np.ndarray:
    """The action the script wants in each phase, before motor noise."""
    hand, thing, goal = now[:, HAND], now[:, OBJECT], now[:, GOAL]
    if kind == "point":
        return np.column_stack([_towards(goal - hand), np.full(len(now), -1.0)])
    early = (phase == REACH) | (phase == GRASP)
    way = np.where(early[:, None], thing - hand, goal - thing)
    move = _one_axis(way) if kind == CLAW else _towards(way)
    return np.column_stack([move, np.where(phase == REACH, 1.0, -1.0)])


def _towards(way: np.ndarray) -> np.ndarray:
    """The movement (N, 3) straight along `way`, slower the shorter it is."""
    length = _length(way)
    speed = np.minimum(1.0, np.minimum(0.35 + length / 0.12, length / 0.04))
    return way / np.maximum(length, 1e-9)[:, None] * speed[:, None]


def _one_axis(way: np.ndarray) -> np.ndarray:
    """The same along one axis at a time: sideways, forwards, then up or down."""
    far = np.abs(way) > ON_AXIS
    turn = np.where(far[:, 1], 1, np.where(far[:, 0], 0, 2))
    return _towards(np.where(np.arange(3) == turn[:, None], way, 0.0))


def _length(way: np.ndarray) -> np.ndarray:
    """Euclidean length along the last axis, summed in one fixed order whatever the array's layout."""
    squares = way * way
    total = squares[..., 0]
    for axis in range(1, way.shape[-1]):
        total = total + squares[..., axis]
    return np.sqrt(total)


def _succeeded(kind: str, observation: np.ndarray, event: np.ndarray) -> np.ndarray:
    """Which of the played sequences (N, 26, 11) did what their kind promises."""
    last = observation[:, -1]
    finite = np.isfinite(observation).all((1, 2))
    moved = _length(observation[:, 1:, OBJECT] - observation[:, :1, OBJECT])
    may_move = (event == GRASP) | (event == TRANSPORT) | (event == HOLD) if kind in _GRASPING else np.False_
    untouched = np.where(may_move, 0, moved).max(1) < BUMPED
    if kind in _GRASPING:
        return finite & untouched & (_length(last[:, GOAL] - last[:, OBJECT]) < NEAR)
    if kind == "point":
        return finite & untouched & (_length(last[:, GOAL] - last[:, HAND]) < ARRIVED)
    return finite & untouched
