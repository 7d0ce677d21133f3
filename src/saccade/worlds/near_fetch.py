"""A cheaper Fetch robot to plan with: a hand on three slides, two fingers, the object and the table.

What the arm does to the hand is one number: an action of 1 moves it at 0.8 m/s, reached within a few milliseconds, as
measured in the true world. A physics step lasts 10 ms instead of 2, and there are 11 degrees of freedom instead of 21,
none with a mesh. Heights are counted from the table's top.
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo comes without types.

import mujoco
import numpy as np
from jaxtyping import Float

from saccade.worlds.apex import Cost, MujocoModel
from saccade.worlds.fetch import FINGERS, GOAL, HAND, OBJECT, OBSERVATION, State, load_model

SPEED = 0.8  # metres per second for an action of 1
DELAY = 0.0037  # seconds until the hand moves as fast as it was told to, but for 1/e
MASS = 15.0  # what stands behind the hand, so that the object's weight draws it down about as far as the arm
STEP, FRAME_SKIP = 0.01, 4
OPENING = 0.025  # metres: how far a finger is taken to be open, where its next place is told relative to that

_FINGER = """
    <body name="{name}" pos="0 {side}0.0159 0">
      <joint name="{name}" type="slide" axis="0 {side}1 0" range="0 0.05" limited="true" armature="100" damping="1000"
             solimplimit="0.99 0.999 0.01" solreflimit="0.01 1"/>
      <inertial pos="0 0 0" mass="4" diaginertia="0.1 0.1 0.1"/>
      <geom type="box" size="0.0135 0.007 0.0385" pos="0 {other}0.008 0.02" friction="1 0.05 0.01" class="hand"/>
    </body>"""
_XML = f"""
<mujoco>
  <option timestep="{STEP}"><flag island="disable"/></option>
  <default><default class="hand"><geom margin="0.001" solimp="0.99 0.99 0.01" solref="0.01 1"/></default></default>
  <worldbody>
    <geom name="table" type="box" pos="1.3 0.75 -0.2" size="0.25 0.35 0.2"/>
    <body name="hand">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="{MASS}" diaginertia="0.1 0.1 0.1"/>
      <geom type="box" size="0.04 0.063 0.061" pos="0 0 0.113" class="hand"/>
      {_FINGER.format(name="right", side="", other="-")}
      {_FINGER.format(name="left", side="-", other="")}
    </body>
    <body name="object">
      <joint name="object" type="free" damping="0.01"/>
      <geom type="box" size="0.025 0.025 0.025" mass="2"/>
    </body>
  </worldbody>
  <actuator>
    {" ".join(f'<velocity joint="{axis}" kv="{MASS / DELAY}"/>' for axis in "xyz")}
    <position joint="right" kp="30000" ctrllimited="true" ctrlrange="0 0.2"/>
    <position joint="left" kp="30000" ctrllimited="true" ctrlrange="0 0.2"/>
  </actuator>
</mujoco>"""

_TIME, _POSITIONS = 1, 12
_HAND, _FINGERS, _OBJECT = slice(1, 4), slice(4, 6), slice(6, 9)
_FASTNESS, _OBJECT_FASTNESS = slice(13, 16), slice(18, 24)


def model(workers: int | None = None) -> MujocoModel:
    """The cheaper world, for a planner."""
    return MujocoModel(mujoco.MjModel.from_xml_string(_XML), FRAME_SKIP, command, workers)


def command(action: Float[np.ndarray, "*shape 4"]) -> Float[np.ndarray, "*shape 5"]:
    """What actions tell the hand's speed and the fingers' places."""
    fingers = np.repeat(OPENING + action[..., 3:], 2, axis=-1)
    return np.concatenate([SPEED * action[..., :3], fingers], axis=-1)


class Reader:
    """Sees true states as the cheaper world would."""

    def __init__(self):
        self._model = load_model()
        self._data = mujoco.MjData(self._model)
        joints = [self._model.joint(f"robot0:{side}_gripper_finger_joint") for side in "rl"]
        thing = self._model.joint("object0:joint")
        places = [*(int(joint.qposadr[0]) for joint in joints), *range(thing.qposadr[0], thing.qposadr[0] + 7)]
        speeds = [*(int(joint.dofadr[0]) for joint in joints), *range(thing.dofadr[0], thing.dofadr[0] + 6)]
        self._places, self._speeds = np.array(places), np.array(speeds) + self._model.nq  # positions come first
        self._grip = self._model.site("robot0:grip").id

    def __call__(self, state: State) -> Float[np.ndarray, "robots 24"]:
        """The cheaper world's states for true ones; the hand's velocity follows from all the arm's joints."""
        model, data = self._model, self._data
        seen = np.zeros((len(state), _TIME + _POSITIONS + 11))
        jacobian = np.empty((3, model.nv))
        for robot, physics in enumerate(state.physics):
            data.qpos[:] = physics[: model.nq]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_jacSite(model, data, jacobian, None, self._grip)
            seen[robot, _HAND] = data.site_xpos[self._grip]
            seen[robot, _FASTNESS] = jacobian @ physics[model.nq : model.nq + model.nv]
        seen[:, _FINGERS.start : _TIME + _POSITIONS] = state.physics[:, self._places]
        seen[:, _FASTNESS.stop :] = state.physics[:, self._speeds]
        seen[:, [_HAND.stop - 1, _OBJECT.stop - 1]] -= state.table_height[:, None]
        return seen


def observe(
    states: Float[np.ndarray, "robots *shape 24"], goal: Float[np.ndarray, "robots 3"]
) -> Float[np.ndarray, "robots *shape 11"]:
    """What would be observed in the cheaper world's states, heights counted from the table."""
    seen = np.empty((*states.shape[:-1], len(OBSERVATION)))
    for there, here in ((HAND, _HAND), (OBJECT, _OBJECT), (FINGERS, _FINGERS)):
        seen[..., there] = states[..., here]
    seen[..., GOAL] = goal.reshape(len(goal), *[1] * (states.ndim - 2), 3)
    return seen


def from_table(observation: Float[np.ndarray, "robots 11"], table_height: Float[np.ndarray, " robots"]) -> np.ndarray:
    """True observations with heights counted from the table."""
    seen = observation.copy()
    seen[:, [HAND.stop - 1, OBJECT.stop - 1, GOAL.stop - 1]] -= table_height[:, None]
    return seen


def delivery(goal: Float[np.ndarray, "robots 3"]) -> Cost:
    """APEX's cost: how far the object is from the goal, and a tenth of how far the hand is from the object."""

    def cost(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        thing = states[..., _OBJECT]
        away = np.linalg.norm(thing - goal[:, None, None], axis=-1)
        return away + 0.1 * np.linalg.norm(states[..., _HAND] - thing, axis=-1)

    return cost
