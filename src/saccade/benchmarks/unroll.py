"""How much faster the hand-written gradient of GateL0RD is than that of the plain scan."""

import equinox as eqx
import jax

from saccade.benchmarks.timing import medians_ms
from saccade.memory import GateL0RD, unroll, unroll_plain
from saccade.models import preset


def benchmark(*, batch: int = 192, steps: int = 25, repeats: int = 100) -> dict[str, float]:
    """Milliseconds of one forward and backward pass of the paper's memory over a batch, both ways, and their ratio."""
    s = preset("paper")
    keys = jax.random.split(jax.random.key(0), 4)
    inputs = s.action + s.observation
    cell = GateL0RD(inputs, s.latent, s.features, hidden=s.memory_hidden, key=keys[0])
    x = jax.random.normal(keys[1], (steps, batch, inputs))
    initial = jax.random.normal(keys[2], (batch, s.latent))
    noise = s.gate_noise * jax.random.normal(keys[3], (steps, batch, s.latent))

    def compiled(run):
        def loss(differentiable):
            out = run(*differentiable, noise)
            return (out.output**2).mean() + (out.latent**2).mean() + out.gate.mean()

        gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))
        return lambda: gradient((cell, x, initial))

    ways = {"handwritten": compiled(unroll), "plain": compiled(unroll_plain)}
    times = medians_ms(ways, repeats=repeats)
    return {
        "steps": steps,
        "batch": batch,
        "handwritten_ms": times["handwritten"],
        "plain_ms": times["plain"],
        "plain_over_handwritten": times["plain"] / times["handwritten"],
    }
