"""The feed-forward parts that everything is built from, and the loss that Gaussian predictions are trained with.

Every network here works on the last axis and leaves all axes before it alone: one example, a batch, or a whole
sequence of batches go through the same code, as one matrix product.

Inside, examples are columns: features come first. CPUs handle long rows of one feature with their widest instructions,
short rows of a few features number by number; and a weight's gradient then needs no copy turned round. Where one
network's output is the next one's input, the compiler leaves out turning it back and forth.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


@partial(jax.jit, static_argnums=(1, 2))  # one small program for each size, instead of several
def _draw(key, inputs: int, outputs: int):
    limit = inputs**-0.5
    both = jax.random.uniform(key, (outputs, inputs + 1), minval=-limit, maxval=limit)
    return both[:, :-1], both[:, -1]


def features_first(x: Float[Array, "*batch size"]) -> Float[Array, "size *batch"]:
    """The same numbers with the last axis first."""
    return jnp.moveaxis(x, -1, 0)


class Network(eqx.Module):
    """What takes in features and gives features, or a Gaussian, for each example."""

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Any:
        return jax.tree.map(lambda out: jnp.moveaxis(out, 0, -1), self.columns(features_first(x)))

    @abstractmethod
    def columns(self, x: Float[Array, "inputs *batch"]) -> Any:
        """The same with features first, before and after."""


class Linear(Network):
    """A linear layer, weights and biases drawn uniformly within ±1/√inputs."""

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray):
        self.weight, self.bias = _draw(key, inputs, outputs)

    def columns(self, x: Float[Array, "inputs *batch"]) -> Float[Array, "outputs *batch"]:
        """The same with features first, before and after."""
        return joined([self], x)[0]


def joined(layers: Sequence[Linear], x: Float[Array, "inputs *batch"]) -> list[Float[Array, "outputs *batch"]]:
    """What several layers make of the same input, in one matrix product; features first."""
    weight, bias = (jnp.concatenate([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
    # Two axes are all that a product needs, and all that compilers turn round for free in its gradient.
    out = (weight @ x.reshape(len(x), -1) + bias[:, None]).reshape(-1, *x.shape[1:])
    ends = list(accumulate(len(layer.bias) for layer in layers))
    return jnp.split(out, ends[:-1])


class MLP(Network):
    """Linear layers with tanh between them, and after the last one too if `tanh_last`. No layers: the identity."""

    layers: tuple[Linear, ...]
    tanh_last: bool = eqx.field(static=True)

    def __init__(self, inputs: int, sizes: Sequence[int], *, tanh_last: bool, key: PRNGKeyArray):
        widths = (inputs, *sizes)
        keys = jax.random.split(key, max(len(sizes), 1))
        self.layers = tuple(Linear(*pair, key=k) for pair, k in zip(pairwise(widths), keys, strict=False))
        self.tanh_last = tanh_last

    def columns(self, x: Float[Array, "inputs *batch"]) -> Float[Array, "outputs *batch"]:
        """The same with features first, before and after."""
        return self.after_first(self.layers[0].columns(x)) if self.layers else x

    def after_first(self, x: Float[Array, "hidden *batch"]) -> Float[Array, "outputs *batch"]:
        """The rest of the way for what came out of the first layer, before its tanh; features first."""
        for layer in self.layers[1:]:
            x = layer.columns(jnp.tanh(x))
        return jnp.tanh(x) if self.tanh_last else x


Squash = Literal["tanh", "sigmoid"]
_SQUASH = {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}


class GatedLayer(Network):
    """One layer whose outputs are multiplied by a second one's sigmoids: squash(V x + b) ⊙ sigmoid(G x + c)."""

    value: Linear
    gate: Linear
    squash: Squash = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, *, squash: Squash = "tanh", key: PRNGKeyArray):
        value_key, gate_key = jax.random.split(key)
        self.value = Linear(inputs, outputs, key=value_key)
        self.gate = Linear(inputs, outputs, key=gate_key)
        self.squash = squash

    def columns(self, x: Float[Array, "inputs *batch"]) -> Float[Array, "outputs *batch"]:
        """The same with features first, before and after."""
        value, gate = joined([self.value, self.gate], x)
        return _SQUASH[self.squash](value) * jax.nn.sigmoid(gate)


class Gaussian(eqx.Module):
    """A prediction with its uncertainty: independent normal distributions, one for each dimension."""

    mean: Float[Array, "*batch size"]
    variance: Float[Array, "*batch size"]


class GaussianNetwork(Network):
    """Predicts a Gaussian: shared tanh layers, then one MLP for the mean and one for the variance."""

    shared: MLP
    mean: MLP
    variance: MLP

    def __init__(self, inputs: int, shared: Sequence[int], separate: Sequence[int], outputs: int, *, key: PRNGKeyArray):
        shared_key, mean_key, variance_key = jax.random.split(key, 3)
        self.shared = MLP(inputs, shared, tanh_last=True, key=shared_key)
        features = (inputs, *shared)[-1]
        self.mean = MLP(features, (*separate, outputs), tanh_last=False, key=mean_key)
        self.variance = MLP(features, (*separate, outputs), tanh_last=False, key=variance_key)

    def first_layers(self) -> list[Linear]:
        """The layers that see the input."""
        return [network.layers[0] for network in ((self.shared,) if self.shared.layers else (self.mean, self.variance))]

    def columns(self, x: Float[Array, "inputs *batch"]) -> Gaussian:
        """The same with features first, before and after."""
        mean, variance = joined([self.mean.layers[0], self.variance.layers[0]], self.shared.columns(x))
        # ELU + 1 is positive but underflows to 0 far below zero; 1e-6 bounds the log and the quotient in the NLL.
        return Gaussian(self.mean.after_first(mean), jax.nn.elu(self.variance.after_first(variance)) + 1 + 1e-6)


def beta_nll(
    predicted: Gaussian, target: Float[Array, "*batch size"], beta: float | Float[Array, ""] = 0.5
) -> Float[Array, "*batch"]:
    """How badly a Gaussian predicted a target: its β-NLL, summed over dimensions (β = 0: the plain NLL).

    Each dimension's negative log-likelihood is weighted by stop_gradient(variance)^β (Seitzer et al. 2022), so that
    dimensions predicted with large variance are not neglected.
    """
    mean, variance, target = (features_first(array) for array in (predicted.mean, predicted.variance, target))
    log_variance = jnp.log(variance)
    nll = 0.5 * ((target - mean) ** 2 / variance + log_variance + jnp.log(2 * jnp.pi))
    weight = jnp.exp(beta * jax.lax.stop_gradient(log_variance))  # variance^β, several times faster than a power
    return jnp.sum(nll * weight, axis=0)
