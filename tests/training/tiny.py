"""Models and data so small that training them takes no time."""

import numpy as np

from saccade import preset
from saccade.sequences import Sequences
from saccade.training import members, recipe

SMALL = {
    "latent": 4,
    "memory_hidden": (8,),
    "initial_hidden": (8,),
    "forward_shared": (8,),
    "inverse_shared": (8,),
    "skip_shared": (16,),
}
SETTINGS = preset(observation=3, action=2, **SMALL)


def example(count=24, *, time=8, action=2, context=0, kinds=3, ragged=False, seed=0):
    """Points that are pushed about; their kind says where to."""
    random = np.random.default_rng(seed)
    kind = np.arange(count) % max(kinds, 1)
    push = random.normal(size=(count, time, max(action, 1))) * 0.1 + kind[:, None, None] * 0.1
    moved = np.concatenate([push[..., :1], -push[..., :1], push.sum(-1, keepdims=True)], axis=-1)
    observation = 5.0 + np.cumsum(np.concatenate([random.normal(size=(count, 1, 3)), moved], axis=1), axis=1)
    return Sequences(
        observation=observation,
        action=push[..., :action],
        context=random.normal(size=(count, time, context)) if context else None,
        length=2 + np.arange(count) % (time - 1) if ragged else None,
        kind=kind if kinds else None,
    )


def small_recipe(**changes):
    """A recipe of 40 updates, evaluated twice after the start."""
    return recipe(
        "fast",
        **{"updates": 40, "evaluate_every": 20, "evaluate_on": 24, "batch": 12, "warmup": 4, "sparsity_warmup": 8}
        | changes,
    )


def small_members(*, settings=SETTINGS, sparsities=(1.0,), seeds=(5,), gru=False, **changes):
    return members(small_recipe(**changes), settings=settings, sparsities=sparsities, seeds=seeds, gru=gru)
