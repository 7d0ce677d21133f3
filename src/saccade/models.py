"""The models: what happens next (forward–inverse model), what happens at the next event boundary (skip network).

Arrays are time-major, `(time, ..., feature)`, with any number of batch axes in between. Sequences of unequal length are
padded at their end and come with a `mask` that is true where a step exists; what stands in the padding is ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from saccade import events
from saccade.checks import InputError, check_array, check_choice, check_finite, check_mask
from saccade.memory import GRU, GateL0RD, unroll
from saccade.networks import MLP, GatedLayer, Gaussian, GaussianNetwork, Linear, Squash, beta_nll, features_first


@dataclass(frozen=True)
class ModelSettings:
    """The sizes and kinds of a model's parts; the defaults are the paper's (appendix A).

    Tuples are the widths of tanh layers. A Gaussian prediction has `shared` layers before its mean and variance and
    `separate` ones for each of them.
    """

    observation: int = 11
    action: int = 4
    context: int = 0
    """Further inputs of every step, such as where the agent looks; seen by the memory and the skip network."""
    latent: int = 16
    memory: Literal["gatel0rd", "gru"] = "gatel0rd"
    memory_hidden: tuple[int, ...] = (64, 32)
    features: int = 16
    """How many outputs of the memory the forward model sees."""
    gate_noise: float = 0.1
    """Standard deviation of what is added before the gates in training."""
    initial_hidden: tuple[int, ...] = (64, 32)
    forward_shared: tuple[int, ...] = (64, 32, 16)
    forward_separate: tuple[int, ...] = ()
    forward_scale: float = 0.1
    """The forward model predicts the observation plus this times its network's output."""
    inverse_gated: int | None = 16
    """Width of the inverse model's gated layer (None: as wide as its input)."""
    inverse_squash: Squash = "tanh"
    inverse_shared: tuple[int, ...] = (64, 32, 16)
    inverse_separate: tuple[int, ...] = ()
    skip_shared: tuple[int, ...] = (512, 256, 128, 64, 32)
    skip_separate: tuple[int, ...] = ()
    skip_from_opening: events.FromOpening = "next_boundary"
    """What the skip network learns to predict at a step whose own gates open."""

    def __post_init__(self):
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type is int:
                lowest = 0 if setting.name in ("action", "context") else 1
                if not isinstance(value, int) or value < lowest:
                    raise InputError(f"{setting.name} is {value!r}: wanted a whole number from {lowest} up")
            if isinstance(value, tuple) and not all(isinstance(width, int) and width > 0 for width in value):
                raise InputError(f"{setting.name} is {value!r}: wanted widths of layers, whole numbers from 1 up")
        check_choice("memory", self.memory, ("gatel0rd", "gru"))
        check_choice("inverse_squash", self.inverse_squash, ("tanh", "sigmoid"))
        check_choice("skip_from_opening", self.skip_from_opening, ("next_boundary", "next_step"))


PRESETS = {
    "paper": ModelSettings(),
    # The sizes of the authors' own implementation, which differ from those the paper prints.
    "original": ModelSettings(
        features=32,
        initial_hidden=(128, 64),
        forward_shared=(),
        forward_separate=(64, 32),
        inverse_gated=None,
        inverse_squash="sigmoid",
        inverse_shared=(),
        inverse_separate=(128, 64),
        skip_shared=(256, 128, 64, 32),
        skip_from_opening="next_step",
    ),
}


def preset(name: str = "paper", **changes: Any) -> ModelSettings:
    """The settings of a named preset (`paper` or `original`), with any of them changed."""
    check_choice("preset", name, PRESETS)
    known = [setting.name for setting in fields(ModelSettings)]
    for change in changes:
        check_choice("setting", change, tuple(known))
    return replace(PRESETS[name], **changes)


class Prediction(eqx.Module):
    """What a forward–inverse model made of a sequence: its predictions and what its memory did, step by step."""

    observation: Gaussian
    """Of the next observation: row t speaks of t+1."""
    action: Gaussian | None
    """Of the next action: row t speaks of t+1. None for models without actions."""
    initial: Float[Array, "*batch latent"]
    latent: Float[Array, "time *batch latent"]
    gate: Float[Array, "time *batch latent"]


class Step(eqx.Module):
    """One step of a forward–inverse model: the new latent state, its gates, and the next observation."""

    latent: Float[Array, "*batch latent"]
    gate: Float[Array, "*batch latent"]
    observation: Gaussian


class ForwardInverseModel(eqx.Module):
    """Predicts the next observation from what is seen and done, and the next action from what is then seen."""

    initial: MLP
    memory: GateL0RD | GRU
    forward: GaussianNetwork
    inverse_gated: GatedLayer | None
    inverse: GaussianNetwork | None
    settings: ModelSettings = eqx.field(static=True)

    def __init__(self, settings: ModelSettings, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 5)
        s = settings
        seen = s.action + s.observation
        self.initial = MLP(seen, (*s.initial_hidden, s.latent), tanh_last=True, key=keys[0])
        if s.memory == "gatel0rd":
            self.memory = GateL0RD(seen + s.context, s.latent, s.features, hidden=s.memory_hidden, key=keys[1])
        else:
            self.memory = GRU(seen + s.context, s.latent, s.features, key=keys[1])
        self.forward = GaussianNetwork(s.features, s.forward_shared, s.forward_separate, s.observation, key=keys[2])
        self.inverse_gated = self.inverse = None
        if s.action:
            inputs = s.observation + s.latent
            gated = s.inverse_gated or inputs
            self.inverse_gated = GatedLayer(inputs, gated, squash=s.inverse_squash, key=keys[3])
            self.inverse = GaussianNetwork(gated, s.inverse_shared, s.inverse_separate, s.action, key=keys[4])
        self.settings = settings

    def observe(
        self,
        observation: Float[Array, "time *batch observation"],
        action: Float[Array, "time *batch action"] | None = None,
        context: Float[Array, "time *batch context"] | None = None,
        *,
        mask: Bool[Array, "time *batch"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Prediction:
        """Predicts each next observation and action of a sequence that is given whole (teacher forcing).

        With a `key` the gates are noisy, as in training. The last row's action is predicted from the predicted
        observation, since no later one is given.
        """
        return self._observe(*self._checked(observation, action, context, mask), mask, key)

    @eqx.filter_jit
    def _observe(self, observation, action, context, mask, key) -> Prediction:
        x = _join(action, observation, context)
        initial = self.initial(_join(action, observation)[0])
        noise = None
        if key is not None and self.settings.memory == "gatel0rd":
            shape = (*x.shape[:-1], self.settings.latent)
            noise = self.settings.gate_noise * jax.random.normal(key, shape, x.dtype)
        memory = unroll(self.memory, x, initial, noise)
        predicted = self._ahead(observation, memory.output)
        has_next = _has_next(mask, x.shape[:-1])[..., None]
        next_observation = jnp.where(has_next, jnp.roll(observation, -1, axis=0), predicted.mean)
        actions = self._actions(next_observation, memory.latent)
        return Prediction(predicted, actions, initial, memory.latent, memory.gate)

    def observe_closed(
        self,
        observation: Float[Array, "time *batch observation"],
        first_action: Float[Array, "*batch action"],
        context: Float[Array, "time *batch context"] | None = None,
        *,
        mask: Bool[Array, "time *batch"] | None = None,
    ) -> Prediction:
        """Follows observations while acting for itself: every action after the first is its own prediction."""
        if not self.settings.action:
            raise InputError("this model has no actions to predict: use observe")
        first_action = jnp.asarray(first_action)
        check_array("first_action", first_action, self.settings.action, jnp.shape(observation)[1:-1], "(..., action)")
        check_finite("first_action", first_action)
        no_action = jnp.broadcast_to(first_action, (jnp.shape(observation)[0], *first_action.shape))
        observation, _, context = self._checked(observation, no_action, context, mask)
        return self._observe_closed(observation, first_action, context, mask)

    @eqx.filter_jit
    def _observe_closed(self, observation, first_action, context, mask) -> Prediction:
        initial = self.initial(_join(first_action, observation[0]))

        def step(carry, at):
            latent, action = carry
            observation, next_observation, has_next, context = at
            out = self.step(latent, observation, action, context)
            seen = jnp.where(has_next[..., None], next_observation, out.observation.mean)
            action = self.act(seen, out.latent)
            return (out.latent, action.mean), (out, action)

        at = (observation, jnp.roll(observation, -1, axis=0), _has_next(mask, observation.shape[:-1]), context)
        _, (out, action) = jax.lax.scan(step, (initial, first_action), at)
        return Prediction(out.observation, action, initial, out.latent, out.gate)

    def imagine(
        self,
        first_observation: Float[Array, "*batch observation"],
        action: Float[Array, "time *batch action"] | None = None,
        context: Float[Array, "time *batch context"] | None = None,
        *,
        steps: int | None = None,
    ) -> Prediction:
        """Dreams a sequence up from its first observation: every later one is its own prediction.

        The length is that of `action` or `context`; a model with neither is told how many `steps`.
        """
        given = action if self.settings.action else context if self.settings.context else None
        if given is not None:
            length = jnp.shape(given)[0]
        elif isinstance(steps, int) and steps >= 1:
            length = steps
        else:
            raise InputError("nothing given says how long to imagine: pass action, context or steps (1 or more)")
        shape = (length, *jnp.shape(first_observation))
        _, action, context = self._checked(
            jnp.broadcast_to(first_observation, shape), action, context, None, shortest=1
        )
        return self._imagine(jnp.asarray(first_observation), action, context, length)

    @eqx.filter_jit
    def _imagine(self, first, action, context, length: int) -> Prediction:
        initial = self.initial(_join(None if action is None else action[0], first))

        def step(carry, at):
            latent, observation = carry
            action, context = at
            out = self.step(latent, observation, action, context)
            return (out.latent, out.observation.mean), (out, self._actions(out.observation.mean, out.latent))

        _, (out, predicted) = jax.lax.scan(step, (initial, first), (action, context), length=length)
        return Prediction(out.observation, predicted, initial, out.latent, out.gate)

    def step(
        self,
        latent: Float[Array, "*batch latent"],
        observation: Float[Array, "*batch observation"],
        action: Float[Array, "*batch action"] | None = None,
        context: Float[Array, "*batch context"] | None = None,
    ) -> Step:
        """Takes in one observation and action: the new latent state and the predicted next observation."""
        s, leading = self.settings, jnp.shape(latent)[:-1]
        check_array("latent", latent, s.latent, None, "(..., latent)")
        check_array("observation", observation, s.observation, leading, "(..., observation)")
        if s.action:
            check_array("action", action, s.action, leading, "(..., action)")
        if s.context:
            check_array("context", context, s.context, leading, "(..., context)")
        x = _join(action, observation, context)
        latent, gate = self.memory.step(x, latent)
        return Step(latent, gate, self._ahead(observation, self.memory.read(x, latent)))

    def act(
        self, next_observation: Float[Array, "*batch observation"], latent: Float[Array, "*batch latent"]
    ) -> Gaussian:
        """The next action, given what will then be seen."""
        if self.inverse is None or self.inverse_gated is None:
            raise InputError("this model has no actions to predict: build it with preset(..., action=N)")
        return self.inverse(self.inverse_gated(_join(next_observation, latent)))

    def _actions(self, next_observation, latent) -> Gaussian | None:
        return None if self.inverse is None else self.act(next_observation, latent)

    def _ahead(self, observation, features) -> Gaussian:
        change = self.forward(features)
        return Gaussian(observation + self.settings.forward_scale * change.mean, change.variance)

    def _checked(self, observation, action, context, mask, shortest: int = 2):
        """The inputs as arrays, checked against the settings, with padding made harmless."""
        s = self.settings
        if mask is not None:
            check_mask(mask, jnp.shape(observation)[:-1])
        check_array("observation", observation, s.observation, None, "(time, ..., observation)")
        observation = jnp.asarray(observation)
        if observation.ndim < 2:
            raise InputError(f"observation has shape {observation.shape}: wanted (time, ..., {s.observation})")
        if len(observation) < shortest:
            raise InputError(f"the sequence has length {len(observation)}: wanted at least {shortest} time steps")
        leading = observation.shape[:-1]
        if 0 in leading:
            raise InputError(f"observation has shape {observation.shape}: wanted at least one sequence")
        checked = {"observation": observation}
        for name, given, features in (("action", action, s.action), ("context", context, s.context)):
            if features:
                check_array(name, given, features, leading, f"(time, ..., {name})")
                checked[name] = jnp.asarray(given)
            elif given is not None and jnp.shape(given)[-1:] != (0,):
                raise InputError(f"{name} is given to a model built without it: build with preset(..., {name}=N)")
        for name, array in checked.items():
            checked[name] = without_padding(array, mask)
            check_finite(name, checked[name])
        return checked["observation"], checked.get("action"), checked.get("context")


class SkipNetwork(eqx.Module):
    """Predicts, from one moment, the observation at the next event boundary, however far that is."""

    network: GaussianNetwork
    settings: ModelSettings = eqx.field(static=True)

    def __init__(self, settings: ModelSettings, *, key: PRNGKeyArray):
        inputs = settings.observation + settings.context + settings.latent
        self.network = GaussianNetwork(
            inputs, settings.skip_shared, settings.skip_separate, settings.observation, key=key
        )
        self.settings = settings

    def __call__(
        self,
        observation: Float[Array, "*batch observation"],
        latent: Float[Array, "*batch latent"],
        context: Float[Array, "*batch context"] | None = None,
        *,
        mask: Bool[Array, "*batch"] | None = None,
    ) -> Gaussian:
        """The observation at the next boundary, given what is seen and remembered now."""
        s = self.settings
        check_array("observation", observation, s.observation, None, "(..., observation)")
        leading = jnp.shape(observation)[:-1]
        check_array("latent", latent, s.latent, leading, "(..., latent)")
        if s.context:
            check_array("context", context, s.context, leading, "(..., context)")
        elif context is not None and jnp.shape(context)[-1:] != (0,):
            raise InputError("context is given to a model built without it: build with preset(..., context=N)")
        return self.network(without_padding(_join(observation, context, latent), mask))


class EventModel(eqx.Module):
    """A forward–inverse model and the skip network that goes with it."""

    forward_inverse: ForwardInverseModel
    skip: SkipNetwork

    def __init__(self, settings: ModelSettings | None = None, *, key: PRNGKeyArray):
        settings = settings or preset()
        model_key, skip_key = jax.random.split(key)
        self.forward_inverse = ForwardInverseModel(settings, key=model_key)
        self.skip = SkipNetwork(settings, key=skip_key)

    @property
    def settings(self) -> ModelSettings:
        """What both networks were built with."""
        return self.forward_inverse.settings


def on_standardised(
    model: EventModel,
    observation: tuple[Float[Array, " observation"], Float[Array, " observation"]],
    action: tuple[Float[Array, " action"], Float[Array, " action"]],
) -> EventModel:
    """The model that does with plain inputs what this one does with standardised ones; given are means and scales.

    Only weights and biases of first layers change: a network of (x - mean) / scale is a network of x. Predictions stay
    in plain units throughout.
    """
    mean, scale = (jnp.concatenate(pair) for pair in zip(action, observation, strict=True))

    def first(layer: Linear, mean, scale) -> Linear:
        seen = layer.weight[:, : len(mean)] / scale
        weight = jnp.concatenate([seen, layer.weight[:, len(mean) :]], axis=1)
        return eqx.tree_at(lambda it: (it.weight, it.bias), layer, (weight, layer.bias - seen @ mean))

    def changed(network: eqx.Module, where: Callable, mean, scale) -> Any:
        return eqx.tree_at(where, network, [first(layer, mean, scale) for layer in where(network)])

    inner = changed(model.forward_inverse, lambda m: [m.initial.layers[0], *m.memory.first_layers()], mean, scale)
    if inner.inverse_gated is not None:
        inner = changed(inner, lambda m: [m.inverse_gated.value, m.inverse_gated.gate], *observation)
    skip = changed(model.skip, lambda s: s.network.first_layers(), *observation)
    return eqx.tree_at(lambda m: (m.forward_inverse, m.skip), model, (inner, skip))


# --- Losses and measures -------------------------------------------------------------------------------------------


def forward_inverse_loss(
    predicted: Prediction,
    next_observation: Float[Array, "time *batch observation"],
    action: Float[Array, "time *batch action"] | None = None,
    *,
    sparsity: float | Float[Array, ""],
    beta: float | Float[Array, ""] = 0.5,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, ""]:
    """The training loss: half the β-NLL of observations and of actions each, plus `sparsity` (λ) times the gate rate.

    A model without actions has its observations only. A GRU has no gates to close: train it with `sparsity=0`.
    """
    loss = observation_nll(predicted, next_observation, beta=beta, mask=mask)
    if predicted.action is not None:
        loss = 0.5 * loss + 0.5 * action_nll(predicted, action, beta=beta, mask=mask)
    return loss + sparsity * gate_rate(predicted, mask=mask)


def skip_loss(
    predicted: Gaussian,
    target: Float[Array, "time_but_last *batch observation"],
    *,
    beta: float | Float[Array, ""] = 0.5,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, ""]:
    """The skip network's training loss against `events.skip_targets`, of predictions for every step but the last."""
    later = None if mask is None else mask[1:]
    return _mean(beta_nll(predicted, without_padding(target, later), beta), later)


def observation_nll(
    predicted: Prediction,
    next_observation: Float[Array, "time *batch observation"],
    *,
    beta: float | Float[Array, ""] = 0.0,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, ""]:
    """How badly the observations t+1 were predicted: β-NLL, averaged over steps and sequences."""
    return _mean(beta_nll(predicted.observation, without_padding(next_observation, mask), beta), mask)


def action_nll(
    predicted: Prediction,
    action: Float[Array, "time *batch action"] | None,
    *,
    beta: float | Float[Array, ""] = 0.0,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, ""]:
    """How badly the actions t+1 were predicted: β-NLL, averaged over the steps that have a next one."""
    predicted_action, target, later = _next_actions(predicted, action, mask)
    return _mean(beta_nll(predicted_action, target, beta), later)


def gate_rate(predicted: Prediction, *, mask: Bool[Array, "time *batch"] | None = None) -> Float[Array, ""]:
    """The share of gates that opened; its gradient goes straight through to how far the open ones opened."""
    return _mean(_is_open(predicted.gate).mean(-1), mask)


def measure(
    predicted: Prediction,
    next_observation: Float[Array, "time *batch observation"],
    action: Float[Array, "time *batch action"] | None = None,
    *,
    mask: Bool[Array, "time *batch"] | None = None,
) -> dict[str, Float[Array, ""]]:
    """The numbers a paper reports: NLL and mean squared error of observations and actions, and the gate rate."""
    target = without_padding(next_observation, mask)
    measures = {
        "observation_nll": observation_nll(predicted, next_observation, mask=mask),
        "observation_mse": _mean(((predicted.observation.mean - target) ** 2).mean(-1), mask),
        "gate_rate": gate_rate(predicted, mask=mask),
    }
    if predicted.action is not None:
        predicted_action, target, later = _next_actions(predicted, action, mask)
        measures["action_nll"] = action_nll(predicted, action, mask=mask)
        measures["action_mse"] = _mean(((predicted_action.mean - target) ** 2).mean(-1), later)
    return measures


def without_padding(array: Float[Array, "*batch size"], mask: Bool[Array, "*batch"] | None):
    """The array with zeros where the mask says that no step exists, so that nothing of the padding gets anywhere."""
    return array if mask is None else jnp.where(jnp.asarray(mask)[..., None], array, 0)


@jax.custom_jvp
def _is_open(gate):
    return (gate > 0).astype(gate.dtype)


@_is_open.defjvp
def _straight_through(primals, tangents):
    return _is_open(*primals), tangents[0]


def _next_actions(predicted: Prediction, action, mask):
    """Predictions of the actions 2..T, those actions, and which of them exist."""
    if predicted.action is None or action is None:
        raise InputError("action is missing: wanted the actions of the sequence, from a model that predicts them")
    first = Gaussian(predicted.action.mean[:-1], predicted.action.variance[:-1])
    later = None if mask is None else mask[1:]
    return first, without_padding(action[1:], later), later


def _mean(values: Float[Array, "time *batch"], mask: Bool[Array, "time *batch"] | None) -> Float[Array, ""]:
    if mask is None:
        return values.mean()
    return jnp.where(mask, values, 0).sum() / mask.sum()


def _join(*parts: Array | None) -> Array:
    joined = jnp.concatenate([features_first(part) for part in parts if part is not None])
    return jnp.moveaxis(joined, 0, -1)


def _has_next(mask: Bool[Array, "time *batch"] | None, leading: tuple[int, ...]) -> Bool[Array, "time *batch"]:
    """Which steps are followed by another one."""
    if mask is None:
        mask = jnp.ones(leading, bool)
    return jnp.concatenate([mask[1:], jnp.zeros_like(mask[:1])])
