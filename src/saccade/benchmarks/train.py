"""How fast models are trained, against how fast this machine multiplies matrices at all."""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from saccade import machine
from saccade.models import ModelSettings, preset
from saccade.training.population import Group
from saccade.training.recipe import members, recipe
from saccade.training.run import load_data

SKIPS = ("none", "sampled", "every step")
"""Without the skip network, with it as in the fast recipe, and as in the paper's."""


def benchmark(
    data: Path,
    *,
    models: Sequence[int] = (1, 2, 10),
    presets: Sequence[str] = ("paper", "original"),
    repeats: int = 3,
    seconds: float = 4.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Milliseconds per update and model for each preset, number of models and skip network, from one run on real data.

    The matrix-product rate is taken again beside every row, since a machine's speed changes with its neighbours; the
    share is the median over repeats of rate reached over rate possible, one right after the other.
    """
    train, validation = load_data(data)
    rows, rates = [], []
    cases = [(name, count, skip) for name in presets for skip in SKIPS for count in models]
    for number, (name, count, skip) in enumerate(cases):
        if progress:
            progress("cases", number, len(cases))
        settings = preset(name, **train.sizes)
        _forget_peak()
        changes: dict[str, Any] = {"none": {"skip_steps": 0}, "sampled": {}, "every step": {"skip_steps": None}}[skip]
        wanted = recipe("fast", evaluate_on=192, **changes)
        group = Group(members(wanted, settings=settings, seeds=range(count)), train, validation)
        trainings, _ = group.advance(group.start(), 0, 2)  # compiles
        begin = time.perf_counter()
        trainings, _ = group.advance(trainings, 2, 5)
        updates = max(5, int(5 * seconds / (time.perf_counter() - begin)))
        times, shares = [], []
        skip_steps = train.time - 1 if wanted.skip_steps is None else wanted.skip_steps
        floor = flops(settings, wanted.batch, train.time, skip_steps)
        for repeat in range(repeats):
            rate = matmul_rate()
            begin = time.perf_counter()
            trainings, _ = group.advance(trainings, 7 + repeat * updates, updates)
            times.append((time.perf_counter() - begin) / updates / count)
            shares.append(floor / times[-1] / rate)
            rates.append(rate)
        rows.append(
            {
                "preset": name,
                "models": count,
                "skip": skip,
                "ms_per_update_per_model": 1000 * statistics.median(times),
                "gflop_per_update": floor / 1e9,
                "share_of_matmul_rate": statistics.median(shares),
                "peak_mib": _peak_mib(),
            }
        )
        del group, trainings
    if progress:
        progress("cases", len(cases), len(cases))
    return {
        "devices": machine.devices(),
        "matmul_gflops": statistics.median(rates) / 1e9,
        "batch": recipe("fast").batch,
        "steps": train.time,
        "rows": rows,
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _forget_peak() -> None:
    """Lets the most memory that this process ever held be counted anew; where the system cannot, it goes on rising."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def flops(settings: ModelSettings, batch: int, steps: int, skip_steps: int) -> float:
    """Floating-point operations of an update's matrix products, forward and twice that backward."""
    s = settings
    seen = s.action + s.observation + s.context

    def mlp(*sizes: int) -> int:
        return sum(inputs * outputs for inputs, outputs in pairwise(sizes))

    def gaussian(inputs: int, shared: Sequence[int], separate: Sequence[int], outputs: int) -> int:
        return mlp(inputs, *shared) + 2 * mlp((inputs, *shared)[-1], *separate, outputs)

    if s.memory == "gatel0rd":
        memory = 2 * mlp(seen + s.latent, *s.memory_hidden, s.latent) + 2 * mlp(seen + s.latent, s.features)
    else:
        memory = mlp(seen, 3 * s.latent) + mlp(s.latent, 3 * s.latent) + mlp(s.latent, s.features)
    forward = gaussian(s.features, s.forward_shared, s.forward_separate, s.observation)
    inverse = 0
    if s.action:
        gated = s.inverse_gated or s.observation + s.latent
        inverse = 2 * mlp(s.observation + s.latent, gated)
        inverse += gaussian(gated, s.inverse_shared, s.inverse_separate, s.action)
    initial = mlp(seen - s.context, *s.initial_hidden, s.latent)
    skip = gaussian(s.observation + s.context + s.latent, s.skip_shared, s.skip_separate, s.observation)
    multiplications = batch * (steps * (memory + forward + inverse) + initial + skip_steps * skip)
    return 3 * 2.0 * multiplications


def matmul_rate(size: int = 1024, count: int = 8) -> float:
    """Floating-point operations per second of large single-precision matrix products, all devices at once."""
    devices = jax.local_devices()
    run = jax.jit(lambda x: jax.lax.fori_loop(0, count, lambda _, y: (y @ x) * (1 / size), x))
    given = [jax.device_put(jnp.ones((size, size), jnp.float32), device) for device in devices]

    def timed(array) -> float:
        jax.block_until_ready(run(array))
        begin = time.perf_counter()
        jax.block_until_ready(run(array))
        return time.perf_counter() - begin

    with ThreadPoolExecutor(len(devices)) as pool:
        return sum(2.0 * size**3 * count / seconds for seconds in pool.map(timed, given))
