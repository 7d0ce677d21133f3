"""How long it takes to find out where one model looks, against replaying every step's past from its start."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from saccade import EventModel, attention, machine
from saccade import sequences as sequences_
from saccade.studies import gaze
from saccade.studies.study import each, kinds
from saccade.training import recipe
from saccade.training.population import model_sizes

WHOLE = 25 * 3_200
"""Checkpoints of a seed, times sequences of each condition, that the paper's figure looks at."""
WAYS = {"carried": attention.watch, "replayed": attention.watch_replayed}


def benchmark(
    data: Path, *, sequences: int = 3_200, progress: Callable[[str, int, int], None] | None = None
) -> dict[str, Any]:
    """Seconds to watch so many test sequences in each of the four conditions, both ways, by clock and by processor.

    The model is untrained: what it has learned changes none of the work. The first call of each way, which compiles, is
    not counted.
    """
    test = sequences_.load(data / "test.safetensors")
    settings = replace(gaze.SIZES, **model_sizes(test, recipe("fast", focus_changes=5)))
    model = EventModel(settings, key=jax.random.key(0))
    watched = [(one.intra, test[kinds(test)[one.kind][:sequences]]) for one in gaze.CONDITIONS]
    numbers: dict[str, Any] = {"devices": machine.devices(), "sequences": len(watched[0][1])}
    for number, (name, way) in enumerate(WAYS.items()):
        if progress:
            progress("ways", number, len(WAYS))

        def watch(given, way=way):
            return gaze.focus(model, given[1], given[0], way=way)

        each(watch, [(1.0, over[: gaze.CHUNK]) for _, over in watched], "")  # compiles, on every device
        clock, processor = time.perf_counter(), time.process_time()
        each(watch, watched, "")
        numbers[f"{name}_seconds"] = time.perf_counter() - clock
        numbers[f"{name}_processor_seconds"] = time.process_time() - processor
    if progress:
        progress("ways", len(WAYS), len(WAYS))
    numbers["replayed_over_carried"] = numbers["replayed_processor_seconds"] / numbers["carried_processor_seconds"]
    times = WHOLE / numbers["sequences"]
    numbers["minutes_for_25_checkpoints_extrapolated"] = numbers["carried_seconds"] * times / 60
    return numbers
