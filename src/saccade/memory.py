"""Recurrent memories: GateL0RD, which changes only where its gates open, and the GRU that it is compared with.

Arrays are time-major: `(time, ..., feature)`, with any number of batch axes, or none, in between. `unroll` runs a
memory over a whole sequence. For GateL0RD its gradient is written by hand: it keeps activations only, joins what is one
matrix product, and adds weights' gradients up step by step; `unroll_plain` is the same computation without that, kept
as its reference.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from saccade.networks import MLP, GatedLayer, Linear, features_first, joined


class GateL0RD(eqx.Module):
    """A recurrent layer whose latent state changes sparsely (Gumbsch et al. 2021).

    A recommendation network proposes a new latent state, a gate network decides for each dimension how far to go
    there, and dimensions whose gate is closed keep their value exactly.
    """

    recommend: MLP
    gate: MLP
    output: GatedLayer

    def __init__(self, inputs: int, latent: int, outputs: int, *, hidden: Sequence[int] = (64, 32), key: PRNGKeyArray):
        recommend_key, gate_key, output_key = jax.random.split(key, 3)
        self.recommend = MLP(inputs + latent, (*hidden, latent), tanh_last=True, key=recommend_key)
        self.gate = MLP(inputs + latent, (*hidden, latent), tanh_last=False, key=gate_key)
        self.output = GatedLayer(inputs + latent, outputs, key=output_key)

    @property
    def latent_size(self) -> int:
        """The number of latent dimensions."""
        return self.recommend.layers[-1].weight.shape[-2]

    def first_layers(self) -> list[Linear]:
        """The layers that see the input."""
        return [self.recommend.layers[0], self.gate.layers[0], self.output.value, self.output.gate]

    def step(
        self,
        x: Float[Array, "*batch inputs"],
        h: Float[Array, "*batch latent"],
        noise: Float[Array, "*batch latent"] | None = None,
    ) -> tuple[Float[Array, "*batch latent"], Float[Array, "*batch latent"]]:
        """The next latent state, and how far each gate opened (0 closed, 1 fully open)."""
        seen = jnp.concatenate([x, h], axis=-1)
        drive = self.gate(seen)
        gate = jax.nn.relu(jnp.tanh(drive if noise is None else drive - noise))
        return _update(gate, self.recommend(seen), h), gate

    def read(
        self, x: Float[Array, "*batch inputs"], h: Float[Array, "*batch latent"]
    ) -> Float[Array, "*batch outputs"]:
        """The layer's output for an input and the latent state that it led to."""
        return self.output(jnp.concatenate([x, h], axis=-1))


class GRU(eqx.Module):
    """A gated recurrent unit with a linear read-out, every latent dimension changing at every step."""

    from_input: Linear
    from_latent: Linear
    output: Linear

    def __init__(self, inputs: int, latent: int, outputs: int, *, key: PRNGKeyArray):
        input_key, latent_key, output_key = jax.random.split(key, 3)
        self.from_input = Linear(inputs, 3 * latent, key=input_key)
        self.from_latent = Linear(latent, 3 * latent, key=latent_key)
        self.output = Linear(latent, outputs, key=output_key)

    @property
    def latent_size(self) -> int:
        """The number of latent dimensions."""
        return self.from_latent.weight.shape[-1]

    def first_layers(self) -> list[Linear]:
        """The layers that see the input."""
        return [self.from_input]

    def step(
        self, x: Float[Array, "*batch inputs"], h: Float[Array, "*batch latent"], noise: None = None
    ) -> tuple[Float[Array, "*batch latent"], Float[Array, "*batch latent"]]:
        """The next latent state, and ones: a GRU has no gate that closes exactly."""
        h = self.advance(self.from_input(x), h)
        return h, jnp.ones_like(h)

    def advance(
        self, projected: Float[Array, "*batch three_latent"], h: Float[Array, "*batch latent"]
    ) -> Float[Array, "*batch latent"]:
        """The next latent state for an input that has been through `from_input` already."""
        reset_in, update_in, new_in = jnp.split(projected, 3, axis=-1)
        reset_h, update_h, new_h = jnp.split(self.from_latent(h), 3, axis=-1)
        update = jax.nn.sigmoid(update_in + update_h)
        new = jnp.tanh(new_in + jax.nn.sigmoid(reset_in + reset_h) * new_h)
        return (1 - update) * new + update * h

    def read(
        self, x: Float[Array, "*batch inputs"], h: Float[Array, "*batch latent"]
    ) -> Float[Array, "*batch outputs"]:
        """The layer's output; a GRU reads it from the latent state alone."""
        return self.output(h)


Memory = GateL0RD | GRU


class Unrolled(eqx.Module):
    """What a memory did over a sequence, step by step."""

    output: Float[Array, "time *batch outputs"]
    latent: Float[Array, "time *batch latent"]
    gate: Float[Array, "time *batch latent"]


@eqx.filter_jit  # so that a call outside of any jit is compiled once, not every time
def unroll(
    memory: Memory,
    x: Float[Array, "time *batch inputs"],
    initial: Float[Array, "*batch latent"] | None = None,
    noise: Float[Array, "time *batch latent"] | None = None,
) -> Unrolled:
    """Outputs, latent states and gates of a memory that is fed a whole sequence, fast in both directions.

    `initial` is the latent state before the first step (default: zeros), `noise` what is subtracted from GateL0RD's
    gate network before it is squashed (default: nothing).
    """
    if initial is None:
        initial = jnp.zeros((*x.shape[1:-1], memory.latent_size), x.dtype)
    if isinstance(memory, GRU):
        latent = _gru_latents(memory, x, initial)
        gate = jnp.ones_like(latent)
    else:
        latent, gate = _gatelord_latents(memory.recommend, memory.gate, x, initial, noise)
    return Unrolled(memory.read(x, latent), latent, gate)


@eqx.filter_jit
def unroll_plain(
    memory: Memory,
    x: Float[Array, "time *batch inputs"],
    initial: Float[Array, "*batch latent"] | None = None,
    noise: Float[Array, "time *batch latent"] | None = None,
) -> Unrolled:
    """The same as `unroll`, one `step` after the other, its gradient left to automatic differentiation."""
    if initial is None:
        initial = jnp.zeros((*x.shape[1:-1], memory.latent_size), x.dtype)

    def step(h, at):
        h, gate = memory.step(at[0], h, at[1])
        return h, (memory.read(at[0], h), h, gate)

    return Unrolled(*jax.lax.scan(step, initial, (x, noise))[1])


def _update(gate, recommended, h):
    # Selecting instead of adding 0 keeps closed dimensions to the last bit, signed zeros included.
    return jnp.where(gate > 0, gate * recommended + (1 - gate) * h, h)


def _gru_latents(gru: GRU, x, initial):
    def step(h, projected):
        h = gru.advance(projected, h)
        return h, h

    return jax.lax.scan(step, initial, gru.from_input(x))[1]


# --- GateL0RD over a sequence, with its gradient -------------------------------------------------------------------
# Features come first in every step: see `networks`. Notation: z are activations (after tanh) of the recommendation (r)
# and gate (g) networks' layers, δ the gradients of what went into the tanh.


@jax.custom_vjp
def _gatelord_latents(recommend: MLP, gate: MLP, x, initial, noise):
    return _gatelord_forward(recommend, gate, x, initial, noise)[0]


def _gatelord_forward(recommend: MLP, gate: MLP, x, initial, noise):
    def step(h, at):
        x, noise = at
        r, g = joined([recommend.layers[0], gate.layers[0]], jnp.concatenate([x, h]))
        z_r, z_g = [jnp.tanh(r)], []
        for layer_r, layer_g in zip(recommend.layers[1:], gate.layers[1:], strict=True):
            z_r.append(jnp.tanh(layer_r.columns(z_r[-1])))
            z_g.append(jnp.tanh(g))
            g = layer_g.columns(z_g[-1])
        opened = jnp.maximum(jnp.tanh(g if noise is None else g - noise), 0)
        h = _update(opened, z_r[-1], h)
        return h, (h, opened, z_r, z_g)

    x, noise, initial = _turned(x), None if noise is None else _turned(noise), features_first(initial)
    _, (latents, gates, z_r, z_g) = jax.lax.scan(step, initial, (x, noise))
    return (_turned_back(latents), _turned_back(gates)), (recommend, gate, x, initial, noise, latents, gates, z_r, z_g)


def _gatelord_backward(saved, gradients):
    recommend, gate, x, initial, noise, latents, gates, z_r, z_g = saved
    before = jnp.concatenate([initial[None], latents[:-1]])
    both = [recommend.layers[0], gate.layers[0]]
    from_x, from_h = jnp.split(jnp.concatenate([layer.weight for layer in both]), [x.shape[1]], axis=1)

    def step(carry, at):
        d_h, totals = carry
        d_latent, d_gate, opened, x, h, z_r, z_g = at
        d_h = d_h + d_latent
        δ_g = jnp.where(opened > 0, (d_h * (z_r[-1] - h) + d_gate) * (1 - opened**2), 0)
        δs_r, δs_g = [d_h * opened * (1 - z_r[-1] ** 2)], [δ_g]
        for depth in range(len(z_g) - 1, -1, -1):
            δs_r.insert(0, _back(recommend.layers[depth + 1].weight, δs_r[0]) * (1 - z_r[depth] ** 2))
            δs_g.insert(0, _back(gate.layers[depth + 1].weight, δs_g[0]) * (1 - z_g[depth] ** 2))
        δ = jnp.concatenate([δs_r[0], δs_g[0]])
        δs, zs = [δ, *δs_r[1:], *δs_g[1:]], [jnp.concatenate([x, h]), *z_r[:-1], *z_g]
        found = [(_outer(δ, z), δ.reshape(len(δ), -1).sum(1)) for δ, z in zip(δs, zs, strict=True)]
        d_h = d_h * (1 - opened) + _back(from_h, δ)
        return (d_h, jax.tree.map(jnp.add, totals, found)), (_back(from_x, δ), δ_g)

    later = [(layer.weight, layer.bias) for layer in (*recommend.layers[1:], *gate.layers[1:])]
    first = jnp.concatenate([from_x, from_h], axis=1), jnp.concatenate([layer.bias for layer in both])
    nothing = jax.tree.map(jnp.zeros_like, (initial, [first, *later]))
    d_latents, d_gates = (_turned(d) for d in gradients)
    (d_initial, totals), (d_x, δ_g) = jax.lax.scan(
        step, nothing, (d_latents, d_gates, gates, x, before, z_r, z_g), reverse=True
    )
    (d_weight, d_bias), depth, width = totals[0], len(z_g), len(both[0].bias)
    return (
        _with_parameters(recommend, [(d_weight[:width], d_bias[:width]), *totals[1 : 1 + depth]]),
        _with_parameters(gate, [(d_weight[width:], d_bias[width:]), *totals[1 + depth :]]),
        _turned_back(d_x),
        jnp.moveaxis(d_initial, 0, -1),
        None if noise is None else -_turned_back(δ_g),
    )


def _turned(array: Float[Array, "time *batch size"]) -> Float[Array, "time size *batch"]:
    return jnp.moveaxis(array, -1, 1)


def _turned_back(array: Float[Array, "time size *batch"]) -> Float[Array, "time *batch size"]:
    return jnp.moveaxis(array, 1, -1)


def _back(weight: Float[Array, "outputs inputs"], δ: Float[Array, "outputs *batch"]) -> Float[Array, "inputs *batch"]:
    return (weight.T @ δ.reshape(len(δ), -1)).reshape(-1, *δ.shape[1:])


def _outer(δ: Float[Array, "outputs *batch"], z: Float[Array, "inputs *batch"]) -> Float[Array, "outputs inputs"]:
    """A weight's gradient, summed over the batch in one product."""
    return δ.reshape(len(δ), -1) @ z.reshape(len(z), -1).T


def _with_parameters(mlp: MLP, parameters) -> MLP:
    return jax.tree.unflatten(jax.tree.structure(mlp), [array for layer in parameters for array in layer])


_gatelord_latents.defvjp(_gatelord_forward, _gatelord_backward)
