"""A policy that moves the object to the goal, learned from the planner, and how it guides the planner.

It sees a state of the cheaper world (`near_fetch`) as it looks from the hand: only differences and heights above the
table, so that what was learned in one place holds in another. Left and right, near and far are mirrored at random in
training: for the hand they are the same.
"""

import os
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from saccade import saving
from saccade.checks import FileError
from saccade.networks import MLP
from saccade.worlds.apex import Model

HIDDEN = (128, 128, 128)
SHIPPED = Path(__file__).with_name("policy.safetensors")

# Which features and actions change sign where x is mirrored, and where y is.
_XYZ = np.array([[-1, 1], [1, -1], [1, 1]])
_SAME, _HEADING = np.array([[1, 1]]), np.array([[1, 1], [-1, -1]])
_MIRRORED = np.concatenate([*[_XYZ] * 6, *[_SAME] * 4, np.array([[1, -1]]), _HEADING, _SAME])
_MIRRORED_ACTION = np.concatenate([_XYZ, _SAME])
FEATURES = len(_MIRRORED)
Either = Array | np.ndarray


class Policy(eqx.Module):
    """What to do in a state of the cheaper world, so that the object gets to the goal."""

    network: MLP

    def __init__(self, *, key: PRNGKeyArray):
        self.network = MLP(FEATURES, (*HIDDEN, len(_MIRRORED_ACTION)), tanh_last=False, key=key)

    def __call__(self, seen: Float[Array, "*shape features"]) -> Float[Array, "*shape 4"]:
        return jnp.clip(self.network(seen), -1, 1)


def look(state: Float[Either, "*shape 24"], goal: Float[Either, "*shape 3"]) -> Float[Array, "*shape features"]:
    """What the policy sees of a state: distances twice, the second time so that millimetres count when near."""
    hand, right, left, thing = state[..., 1:4], state[..., 4:5], state[..., 5:6], state[..., 6:9]
    speeds = state[..., 13:]
    to_object, to_goal = thing - hand, goal - thing
    # How a cube is turned, the same for turns that it looks the same after.
    w, x, y, z = (state[..., axis] for axis in range(9, 13))
    axes = jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
        ],
        -2,
    )
    turned = ((axes[..., 0, :] + 1j * axes[..., 1, :]) ** 4).sum(-1, keepdims=True) / 2
    return jnp.concatenate(
        [
            *(to_object / 0.1, to_goal / 0.1, jnp.tanh(to_object / 0.03), jnp.tanh(to_goal / 0.05)),
            *(speeds[..., :3], speeds[..., 5:8]),
            *(hand[..., 2:] / 0.1, thing[..., 2:] / 0.1, (right + left - 0.05) / 0.05),
            *(speeds[..., 3:4] + speeds[..., 4:5], (right - left) / 0.02),
            *(turned.real, turned.imag, (axes[..., 2, :] ** 4).sum(-1, keepdims=True)),
        ],
        -1,
    ).astype(jnp.float32)


@eqx.filter_jit
def act(policy: Policy, state: Float[Either, "*shape 24"], goal: Float[Either, "*shape 3"]) -> Float[Array, "*shape 4"]:
    """What the policy does in each state."""
    return policy(look(state, goal))


@eqx.filter_jit
def _distance(policy: Policy, state: Either, goal: Either, action: Either) -> Array:
    return jnp.sum((policy(look(state, goal)) - action) ** 2, -1)


class Guidance:
    """A policy that guides a planner, from where the robots are now."""

    def __init__(self, policy: Policy, model: Model, state: np.ndarray, goal: np.ndarray):
        self.policy, self.model, self.state, self.goal = policy, model, state, goal

    def imagine(self, horizon: int) -> Float[np.ndarray, "episodes time action"]:
        """What the policy would do from here on, if the cheaper world were the true one."""
        state, actions = self.state, []
        for _ in range(horizon):
            actions.append(np.asarray(act(self.policy, state, self.goal), float))
            state = self.model.roll(state, actions[-1][:, None, None])[:, 0, 0]
        return np.stack(actions, 1)

    def distance(self, states: np.ndarray, actions: np.ndarray) -> Float[np.ndarray, "episodes tried time"]:
        """How far each action of a trajectory is from what the policy would have done there, squared."""
        now = np.broadcast_to(self.state[:, None, None], states[:, :, :1].shape)
        before = np.concatenate([now, states[:, :, :-1]], 2)
        goal = np.broadcast_to(self.goal[:, None, None], (*states.shape[:3], 3))
        return np.asarray(_distance(self.policy, before, goal, actions), float)


@partial(jax.jit, static_argnames=("updates", "batch"))
def _fit(arrays, static, seen, action, key, rate, *, updates: int, batch: int):
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(rate, updates)))

    def loss(arrays, seen, action):
        return jnp.mean((eqx.combine(arrays, static).network(seen) - action) ** 2)

    def update(carry, key):
        arrays, state = carry
        pick, flip = jax.random.split(key)
        which = jax.random.randint(pick, (batch,), 0, len(seen))
        mirror = jax.random.bernoulli(flip, shape=(batch, 2))
        sign, sign_of_action = (
            jnp.where(mirror[:, None], jnp.asarray(table), 1).prod(-1) for table in (_MIRRORED, _MIRRORED_ACTION)
        )
        value, gradient = jax.value_and_grad(loss)(arrays, seen[which] * sign, action[which] * sign_of_action)
        change, state = optimiser.update(gradient, state)
        return (optax.apply_updates(arrays, change), state), value

    (arrays, _), losses = jax.lax.scan(update, (arrays, optimiser.init(arrays)), jax.random.split(key, updates))
    return arrays, losses[-updates // 10 :].mean()


def fit(
    policy: Policy,
    seen: np.ndarray,
    action: np.ndarray,
    *,
    key: PRNGKeyArray,
    updates: int,
    rate: float = 1e-3,
    batch: int = 512,
) -> tuple[Policy, float]:
    """The policy after learning what the planner did, and its mean squared error at the end."""
    arrays, static = eqx.partition(policy, eqx.is_array)
    arrays, loss = _fit(
        arrays, static, jnp.asarray(seen), jnp.asarray(action, jnp.float32), key, rate, updates=updates, batch=batch
    )
    return eqx.combine(arrays, static), float(loss)


def save(policy: Policy, path: str | os.PathLike, **notes: object) -> None:
    """Writes a policy with notes on how it came about."""
    saving.write(path, saving.named(policy), {"kind": "Policy", "notes": notes}, overwrite=True)


def load(path: str | os.PathLike = SHIPPED) -> Policy:
    """The policy that `save` wrote; by default the one that comes with the package."""
    about, tensors = saving.read(path)
    if about.get("kind") != "Policy":
        raise FileError(f"{path} holds a {about.get('kind')!r}: wanted a policy")
    skeleton = eqx.filter_eval_shape(Policy, key=jax.random.key(0))
    return jax.tree.map(jnp.asarray, saving.fill(path, skeleton, tensors))
