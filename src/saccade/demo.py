"""The main job in small: real sequences, a model, and its events."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from rich.table import Table

from saccade import events, sequences
from saccade.models import EventModel
from saccade.worlds import dataset, rendering


def run(folder: Path, progress: Callable[[str, int, int], None]) -> tuple[list[Table], list[Path]]:
    """Makes a few sequences, lets an untrained model run over one of each kind: tables of its events, and pictures."""
    made = sequences.load(dataset.make(folder, {"test": 8}, progress=progress)["test"])
    model = EventModel(key=jax.random.key(0))
    tables, pictures = [], []
    for number, kind in enumerate(made.kind_names):
        one = made[kind][0]
        batch = sequences.batch(one)
        seen = model.forward_inverse.observe(jax.numpy.asarray(batch.observation), jax.numpy.asarray(batch.action))
        opening = np.asarray(events.openings(seen.gate))
        strength = np.asarray(events.strength(seen.latent, seen.initial))
        found = events.segments(events.episodes(opening, strength), np.asarray(seen.latent))
        skips = model.skip(jax.numpy.asarray(batch.observation), seen.latent)
        table = Table("steps", "script's own phases", "strength", "predicted hand at its end (m)")
        table.title = f"{kind}: events of an untrained model (made at random, so they mean nothing yet)"
        assert one.event is not None
        for start, end in zip(found.start, found.end, strict=True):
            phases = dict.fromkeys(one.event_names[event] for event in one.event[0, start:end])
            hand = " ".join(f"{number:.2f}" for number in np.asarray(skips.mean[start, 0, :3]))
            table.add_row(f"{start + 1}-{end}", ", ".join(phases), f"{strength[start, 0]:.2f}", hand)
        tables.append(table)
        picture = folder / f"{kind}.png"
        heights = one.columns["table_height"]
        names = [one.event_names[event] for event in one.event[0]]
        rendering.save(picture, one.observation[0], float(heights[0]), captions=names, overwrite=True)
        pictures.append(picture)
        progress("pictures", number + 1, len(made.kind_names))
    return tables, pictures
