"""Timing things against each other on a machine that may be busy with something else."""

import statistics
import time
from collections.abc import Callable, Mapping

import jax


def medians_ms(contestants: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """The median time of each contestant in milliseconds, taken in turns so that all meet the same disturbances."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            if turn:  # the first turn compiles
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}
