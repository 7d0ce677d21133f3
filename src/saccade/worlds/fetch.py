"""The Fetch robot at its table: Gymnasium-Robotics' Pick & Place on MuJoCo, with a table of any height.

`Fetch` moves many robots at once over all cores, for making data and for planning; `FetchPickAndPlace` is one robot as
a Gymnasium environment. Both take the same steps as Gymnasium-Robotics' own environment: its model, 20 physics steps
of 2 ms per action, the hand pulled by a weld towards a point the action sets.
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo comes without types.

import copy
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from saccade.checks import FileError, InputError, check_choice
from saccade.machine import cores

OBSERVATION = (
    *("hand_x", "hand_y", "hand_z", "object_x", "object_y", "object_z"),
    *("finger_right", "finger_left", "goal_x", "goal_y", "goal_z"),
)
ACTION = ("move_x", "move_y", "move_z", "gripper")
HAND, OBJECT, FINGERS, GOAL = slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 11)

USUAL_HEIGHT = 0.4  # metres from the floor to the table top in Gymnasium-Robotics
HEIGHTS = (0.2, 0.6)  # metres; at 0.2 the arm still comes down to the table, at 0.6 still to goals 0.45 m above it
SUBSTEPS = 20
REACH_OF_ACTION = 0.05  # metres that an action of 1 asks the hand to move
NEAR = 0.05  # metres from the goal within which the object counts as delivered
DOWN = np.array([1.0, 0.0, 1.0, 0.0])  # what Gymnasium-Robotics adds to the hand's rotation, so that fingers point down

# What physics needs to go on exactly where it was. Everything else in MjData follows from it.
_PARTS = tuple(
    sorted(
        getattr(mujoco.mjtState, f"mjSTATE_{part}").value
        for part in ("QPOS", "QVEL", "WARMSTART", "CTRL", "MOCAP_POS", "MOCAP_QUAT")
    )
)
PHYSICS = sum(_PARTS)
_NODES = 100  # starting poses are simulated at every 1/100 m of table height and interpolated between


@dataclass(frozen=True)
class State:
    """Where N robots are: enough to go on exactly from here, as often as wanted."""

    physics: np.ndarray  # (N, numbers MuJoCo keeps)
    wrist: np.ndarray  # (N, 7) position and rotation of the gripper's link, one physics step old like the observation
    observation: np.ndarray  # (N, 11)
    table_height: np.ndarray  # (N,)

    def __len__(self) -> int:
        return len(self.physics)

    def __getitem__(self, which: Any) -> "State":
        """The robots at these indices; an index given twice makes two robots that start alike."""
        return State(self.physics[which], self.wrist[which], self.observation[which], self.table_height[which])


@dataclass(frozen=True)
class Home:
    """How robot and object rest before an episode, for one table height."""

    position: np.ndarray
    velocity: np.ndarray
    hand: np.ndarray
    object_height: float


class Rig:
    """One thread's own model and data, with the places it reads and writes looked up once."""

    def __init__(self, model: mujoco.MjModel):
        self.model = copy.copy(model)
        self.data = data = mujoco.MjData(self.model)
        table = self.model.body("table0").id
        self.table = self.model.body_pos[table, 2:3]
        self.table_at_usual = float(self.table[0])
        wrist = self.model.body("robot0:gripper_link").id
        self.wrist = data.xpos[wrist], data.xquat[wrist]
        self.hand = data.site_xpos[self.model.site("robot0:grip").id]
        self.object = data.site_xpos[self.model.site("object0").id]
        joints = (self.model.joint(f"robot0:{side}_gripper_finger_joint") for side in "rl")
        first, second = (int(joint.qposadr[0]) for joint in joints)
        self.fingers = data.qpos[first : second + 1 : second - first]
        self.object_joint = int(self.model.joint("object0:joint").qposadr[0])

    def set_table(self, height: float) -> None:
        """Puts the table top at `height`. The table hangs or sinks with its size unchanged: only its top is touched."""
        self.table[0] = self.table_at_usual + (height - USUAL_HEIGHT)

    def read(self, wrist: np.ndarray, observation: np.ndarray) -> None:
        wrist[:3], wrist[3:] = self.wrist
        observation[HAND], observation[OBJECT], observation[FINGERS] = self.hand, self.object, self.fingers


def load_model() -> mujoco.MjModel:
    """The model of robot, table and object, from Gymnasium-Robotics' own files, ready to be stepped."""
    package = find_spec("gymnasium_robotics")
    if package is None or not package.submodule_search_locations:
        raise FileError("the Fetch robot's model is missing: install gymnasium-robotics")
    path = Path(package.submodule_search_locations[0], "envs", "assets", "fetch", "pick_and_place.xml")
    if not path.is_file():
        raise FileError(f"{path} is missing: reinstall gymnasium-robotics")
    model = mujoco.MjModel.from_xml_path(str(path))
    welds = model.eq_type == mujoco.mjtEq.mjEQ_WELD.value
    model.eq_data[welds, :7] = [0, 0, 0, 0, 0, 0, 1]  # as Gymnasium-Robotics resets them
    # A simulation that bursts shall show as NaN, not start again unnoticed.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    return model


class Fetch:
    """Many Fetch robots, moved together by threads that share the work; nothing random, nothing hidden.

    `start` makes a `State`, `step` makes the next one from it. Results do not depend on the number of workers, nor on
    which robots are moved together.
    """

    def __init__(self, workers: int | None = None):
        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}: wanted at least 1")
        self.workers = workers or cores()
        model = load_model()
        self._rigs = [Rig(model) for _ in range(self.workers)]
        self._pool = ThreadPoolExecutor(self.workers) if self.workers > 1 else None
        self._homes: dict[int, Home] = {}
        sizes = [mujoco.mj_stateSize(model, part) for part in _PARTS]
        ends = list(itertools.accumulate(sizes))
        parts = {part: slice(end - size, end) for part, size, end in zip(_PARTS, sizes, ends, strict=True)}
        self._size = ends[-1]
        self._ctrl = parts[mujoco.mjtState.mjSTATE_CTRL.value]
        self._mocap_position = parts[mujoco.mjtState.mjSTATE_MOCAP_POS.value]
        self._mocap_rotation = parts[mujoco.mjtState.mjSTATE_MOCAP_QUAT.value]
        moved = model.jnt_qposadr[model.actuator_trnid[:, 0]]
        self._fingers = parts[mujoco.mjtState.mjSTATE_QPOS.value].start + moved

    def __enter__(self) -> "Fetch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def home(self, table_height: float) -> Home:
        """The pose before an episode at this table height: hand and object move up and down with the table."""
        below = int(np.floor(table_height * _NODES + 1e-9))
        share = table_height * _NODES - below
        if share < 1e-9:
            return self._node(below)
        low, high = self._node(below), self._node(below + 1)
        blend = [(1 - share) * getattr(low, name) + share * getattr(high, name) for name in Home.__dataclass_fields__]
        return Home(*blend)

    def _node(self, node: int) -> Home:
        if node not in self._homes:
            self._homes[node] = _settle(self._rigs[0], node / _NODES)
        return self._homes[node]

    def start(self, table_height: np.ndarray, object_position: np.ndarray, goal: np.ndarray) -> State:
        """N robots at home, each with its object at `object_position` (N, 2) on its table, and its `goal` (N, 3)."""
        table_height = np.asarray(table_height, float)
        for height in (table_height.min(), table_height.max()) if len(table_height) else ():
            check_height(height)
        homes = [self.home(height) for height in table_height.tolist()]
        state = self._empty(table_height, goal)

        def work(rig: Rig, turns: Iterator[int]) -> None:
            for turn in turns:
                home, data = homes[turn], rig.data
                rig.set_table(table_height[turn])
                mujoco.mj_resetData(rig.model, data)
                data.qpos[:], data.qvel[:] = home.position, home.velocity
                data.qpos[rig.object_joint : rig.object_joint + 2] = object_position[turn]
                mujoco.mj_forward(rig.model, data)
                mujoco.mj_getState(rig.model, data, state.physics[turn], PHYSICS)
                rig.read(state.wrist[turn], state.observation[turn])

        self._share(len(state), work)
        return state

    def step(self, state: State, action: np.ndarray) -> State:
        """The state one action (N, 4) later; values beyond [-1, 1] count as -1 or 1."""
        after = self._empty(state.table_height, state.observation[:, GOAL])
        physics = after.physics
        physics[:] = self.commanded(state, action)

        def work(rig: Rig, turns: Iterator[int]) -> None:
            model, data = rig.model, rig.data
            for turn in turns:
                rig.set_table(state.table_height[turn])
                mujoco.mj_setState(model, data, physics[turn], PHYSICS)
                mujoco.mj_step(model, data, nstep=SUBSTEPS)
                mujoco.mj_getState(model, data, physics[turn], PHYSICS)
                rig.read(after.wrist[turn], after.observation[turn])

        self._share(len(state), work)
        return after

    def commanded(self, state: State, action: np.ndarray) -> np.ndarray:
        """The physics (N, numbers) of `state` with `action` (N, 4) given to fingers and weld, ready to be stepped."""
        if np.shape(action) != (len(state), len(ACTION)):
            raise InputError(f"action has shape {np.shape(action)}: wanted {(len(state), len(ACTION))}")
        action = np.clip(action, -1.0, 1.0)
        physics = state.physics.copy()
        physics[:, self._ctrl] = physics[:, self._fingers] + action[:, 3:]
        # Not widened first: Gymnasium-Robotics multiplies in the action's own precision, and so do we.
        physics[:, self._mocap_position] = state.wrist[:, :3] + action[:, :3] * REACH_OF_ACTION
        physics[:, self._mocap_rotation] = state.wrist[:, 3:] + DOWN
        return physics

    def _empty(self, table_height: np.ndarray, goal: np.ndarray) -> State:
        count = len(table_height)
        observation = np.empty((count, len(OBSERVATION)))
        observation[:, GOAL] = goal
        return State(np.empty((count, self._size)), np.empty((count, 7)), observation, table_height)

    def _share(self, count: int, work: Callable[[Rig, Iterator[int]], None]) -> None:
        """Lets each thread take the next robot whenever it is free: physics in contact takes longer than without."""
        turns = iter(range(count))
        if self._pool is None or count == 1:
            work(self._rigs[0], turns)
            return
        for running in [self._pool.submit(work, rig, turns) for rig in self._rigs[:count]]:
            running.result()


def _settle(rig: Rig, table_height: float) -> Home:
    """Simulates Gymnasium-Robotics' set-up, moved up or down by the table's height."""
    model, data = rig.model, rig.data
    rig.set_table(table_height)
    mujoco.mj_resetData(model, data)
    for name, value in (("slide0", 0.405), ("slide1", 0.48), ("slide2", 0.0)):
        data.joint(f"robot0:{name}").qpos[0] = value
    data.joint("object0:joint").qpos[:] = [1.25, 0.53, table_height, 1, 0, 0, 0]
    mujoco.mj_forward(model, data)
    lift = np.array([-0.498, 0.005, -0.431 + 0.2 + (table_height - USUAL_HEIGHT)])
    data.mocap_pos[0] = lift + rig.hand
    data.mocap_quat[0] = DOWN
    mujoco.mj_step(model, data, nstep=10 * SUBSTEPS)
    return Home(data.qpos.copy(), data.qvel.copy(), rig.hand.copy(), float(rig.object[2]))


def place(home: Home, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An object's position on the table (2) and a goal (3), drawn as Gymnasium-Robotics draws them, in its order."""
    object_position = home.hand[:2]
    while np.linalg.norm(object_position - home.hand[:2]) < 0.1:
        object_position = home.hand[:2] + rng.uniform(-0.15, 0.15, size=2)
    goal = home.hand + rng.uniform(-0.15, 0.15, size=3)
    goal[2] = home.object_height
    if rng.uniform() < 0.5:
        goal[2] += rng.uniform(0, 0.45)
    return object_position, goal


def check_height(height: float) -> None:
    """Raises unless the robot can work at a table of this height."""
    if not HEIGHTS[0] <= height <= HEIGHTS[1]:
        raise InputError(f"table height {height:g} m: wanted {HEIGHTS[0]} to {HEIGHTS[1]} m, where the arm reaches")


def check_heights(given: float | tuple[float, float]) -> tuple[float, float]:
    """A height or a range of heights as (lowest, highest); raises unless the robot can work at all of them."""
    low, high = given if isinstance(given, tuple | list) else (given, given)
    check_height(low)
    check_height(high)
    if low > high:
        raise InputError(f"table height {low:g} to {high:g} m: wanted the lower one first")
    return float(low), float(high)


class FetchPickAndPlace(gymnasium.Env):
    """One Fetch robot as a Gymnasium environment, with 11 numbers to see and a table of any height.

    With `table_height` 0.4 it takes the same steps and, from the same seed, makes the same episodes as
    Gymnasium-Robotics' FetchPickAndPlace-v4. Given a range (lowest, highest), every reset draws a height from it;
    `reset(options={"table_height": ...})` sets one for that episode.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012  Gymnasium's own type

    def __init__(
        self,
        table_height: float | tuple[float, float] = USUAL_HEIGHT,
        reward_type: str = "sparse",
        render_mode: str | None = None,
    ):
        self.heights = check_heights(table_height)
        check_choice("reward_type", reward_type, ("sparse", "dense"))
        if render_mode is not None:
            check_choice("render_mode", render_mode, tuple(self.metadata["render_modes"]))
        self.reward_type, self.render_mode = reward_type, render_mode
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(OBSERVATION),), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(ACTION),), np.float32)
        self._world = Fetch(workers=1)
        self._state: State | None = None
        self._artist: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Puts robot, object and goal in a new start: the observation, and the table's height."""
        super().reset(seed=seed)
        low, high = check_heights((options or {}).get("table_height", self.heights))
        height = self.np_random.uniform(low, high) if low < high else low
        object_position, goal = place(self._world.home(height), self.np_random)
        self._state = self._world.start(np.array([height]), object_position[None], goal[None])
        return self._state.observation[0].copy(), {"table_height": height}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Moves hand (5 cm for 1) and fingers; the reward is Gymnasium-Robotics' own, and no step ends the task."""
        state = self._world.step(self._begun(), np.asarray(action)[None])
        self._state = state
        observation = state.observation[0].copy()
        distance = float(np.linalg.norm(observation[OBJECT] - observation[GOAL]))
        reward = -distance if self.reward_type == "dense" else -float(distance > NEAR)
        info = {"is_success": distance < NEAR, "table_height": float(state.table_height[0])}
        return observation, reward, False, False, info

    def render(self) -> np.ndarray | None:
        """A picture (height, width, 3) of the present state, if the environment was made with `rgb_array`."""
        if self.render_mode is None:
            return None
        from saccade.worlds.rendering import Artist  # not before it is wanted: it needs a graphics library

        state = self._begun()
        self._artist = self._artist or Artist()
        return self._artist.draw(state.observation[0], float(state.table_height[0]))

    def close(self) -> None:
        """Gives back threads and graphics memory."""
        self._world.close()
        if self._artist:
            self._artist.close()
            self._artist = None

    def _begun(self) -> State:
        if self._state is None:
            raise InputError("the episode has not begun: call reset first")
        return self._state


ENVIRONMENT = "saccade/FetchPickAndPlace-v0"
gymnasium.register(ENVIRONMENT, entry_point="saccade.worlds.fetch:FetchPickAndPlace", max_episode_steps=50)
