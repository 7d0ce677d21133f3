"""What a memory promises: exact gradients, dimensions that keep their value, the same numbers however it is batched."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.memory import GRU, GateL0RD, unroll, unroll_plain

widths = st.integers(1, 5)


def biased(cell: GateL0RD, bias: float) -> GateL0RD:
    """The cell with its gates' last layer replaced by a constant."""
    last = cell.gate.layers[-1]
    return eqx.tree_at(
        lambda c: (c.gate.layers[-1].weight, c.gate.layers[-1].bias),
        cell,
        (jnp.zeros_like(last.weight), jnp.full_like(last.bias, bias)),
    )


def make(inputs, latent, outputs, hidden, steps, batch, seed, noisy=True):
    keys = jax.random.split(jax.random.key(seed), 4)
    cell = GateL0RD(inputs, latent, outputs, hidden=hidden, key=keys[0])
    cell = jax.tree.map(lambda a: 3 * a, cell)  # away from the linear range, so that mistakes in tanh' would show
    x = jax.random.normal(keys[1], (steps, *batch, inputs))
    initial = jax.random.uniform(keys[2], (*batch, latent), minval=-1)
    noise = 0.1 * jax.random.normal(keys[3], (steps, *batch, latent)) if noisy else None
    return cell, x, initial, noise


def gradients(run, cell, x, initial, noise):
    """Of a scalar in which every output, latent state and gate has a weight of its own."""

    def scalar(arguments):
        out = run(*arguments)
        weights = [jax.random.normal(jax.random.key(i), a.shape) for i, a in enumerate(jax.tree.leaves(out))]
        return sum((w * a).sum() for w, a in zip(weights, jax.tree.leaves(out), strict=True))

    return jax.jit(jax.value_and_grad(scalar))((cell, x, initial, noise))


def assert_close(given, wanted, tolerance=1e-10):
    for a, b in zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(np.asarray(b)).max()))


@settings(max_examples=20)
@given(
    sizes=st.tuples(widths, widths, widths),
    hidden=st.lists(widths, max_size=2),
    steps=st.integers(1, 4),
    batch=st.lists(st.integers(1, 3), max_size=2),
    seed=st.integers(0, 2**30),
    noisy=st.booleans(),
)
def test_handwritten_gradient_is_that_of_the_plain_scan(sizes, hidden, steps, batch, seed, noisy):
    arguments = make(*sizes, tuple(hidden), steps, tuple(batch), seed, noisy)
    assert_close(gradients(unroll, *arguments), gradients(unroll_plain, *arguments))


@pytest.mark.parametrize("bias", [0.0, -0.0, -50.0, 50.0, 0.4])
def test_handwritten_gradient_at_the_gates_extremes(bias):
    cell, x, initial, _ = make(3, 4, 2, (5,), 6, (2,), 0)
    cell = biased(cell, bias)
    gate = unroll(cell, x, initial).gate
    np.testing.assert_allclose(gate, max(np.tanh(bias), 0), rtol=1e-12, atol=0)
    given = gradients(unroll, cell, x, initial, None)
    assert_close(given, gradients(unroll_plain, cell, x, initial, None))
    of_gate = jax.tree.leaves(given[1][0].gate)
    assert any(np.any(a != 0) for a in of_gate) == (bias == 0.4)


def test_closed_dimensions_keep_every_bit():
    cell, x, initial, noise = make(3, 8, 2, (5,), 30, (4,), 1)
    initial = initial.at[0].set(-0.0).at[1].set(5e-324).at[2].set(1 / 3)
    for run in (unroll, unroll_plain):
        out = run(cell, x, initial, noise)
        before = np.concatenate([initial[None], out.latent[:-1]])
        closed = np.asarray(out.gate == 0)
        assert 0.1 < closed.mean() < 0.9
        assert (np.asarray(out.latent)[closed].view(np.int64) == before[closed].view(np.int64)).all()
        moved = np.asarray(out.latent) != before
        assert (moved <= ~closed).all()
        assert moved.any()


def test_single_steps_are_the_unrolled_sequence():
    for cell in (make(3, 4, 2, (5,), 1, (), 2)[0], GRU(3, 4, 2, key=jax.random.key(0))):
        x = jax.random.normal(jax.random.key(5), (7, 3))
        out = unroll(cell, x)
        h = jnp.zeros(4)
        for t in range(7):
            h, gate = cell.step(x[t], h)
            assert_close((cell.read(x[t], h), h, gate), (out.output[t], out.latent[t], out.gate[t]))


@pytest.mark.parametrize("kind", ["gatel0rd", "gru"])
def test_batched_is_looped_is_vmapped(kind):
    cell, x, initial, noise = make(3, 4, 2, (5,), 6, (2, 3), 3)
    if kind == "gru":
        cell, noise = GRU(3, 4, 2, key=jax.random.key(0)), None
    run = eqx.filter_jit(unroll)
    batched = run(cell, x, initial, noise)
    in_axes = (None, 1, 0, None if noise is None else 1)
    vmapped = jax.vmap(jax.vmap(unroll, in_axes, 1), in_axes, 1)(cell, x, initial, noise)
    looped = [
        [run(cell, x[:, i, j], initial[i, j], None if noise is None else noise[:, i, j]) for j in range(3)]
        for i in range(2)
    ]
    looped = jax.tree.map(lambda *a: jnp.stack(a, 1).reshape(6, 2, 3, -1), *[out for row in looped for out in row])
    assert_close(vmapped, batched, 1e-12)
    assert_close(looped, batched, 1e-12)


def test_gradients_of_many_cells_at_once_are_those_of_each():
    build = lambda key: GateL0RD(3, 4, 2, hidden=(5,), key=key)  # noqa: E731
    cells = eqx.filter_vmap(build)(jax.random.split(jax.random.key(0), 3))
    _, x, initial, noise = make(3, 4, 2, (5,), 6, (2,), 3)
    together = jax.vmap(lambda cell: gradients(unroll, cell, x, initial, noise))(cells)
    for index in range(3):
        alone = gradients(unroll_plain, jax.tree.map(lambda a, i=index: a[i], cells), x, initial, noise)
        assert_close(jax.tree.map(lambda a, i=index: a[i], together), alone)


def test_float32_stays_float32():
    cell, x, initial, noise = jax.tree.map(lambda a: a.astype(jnp.float32), make(3, 4, 2, (5,), 6, (2,), 3))
    for leaf in jax.tree.leaves((unroll(cell, x, initial, noise), gradients(unroll, cell, x, initial, noise)[1])):
        assert leaf.dtype == jnp.float32
