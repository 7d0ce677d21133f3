"""Sequences to write, and what it means that two are the same."""

import numpy as np
import pytest

from saccade.sequences import Sequences


@pytest.fixture
def example():
    def make(count=7, time=5, *, ragged=True, seed=0, **changes):
        rng = np.random.default_rng(seed)
        fields = {
            "observation": rng.normal(size=(count, time + 1, 5)),
            "action": rng.normal(size=(count, time, 2)),
            "context": rng.normal(size=(count, time, 2)),
            "event": rng.integers(0, 3, (count, time)),
            "event_names": ("come", "take", "go"),
            "kind": np.arange(count) % 3,
            "kind_names": ("reach", "point", "stretch"),
            "length": rng.integers(2, time + 1, count) if ragged else None,
            "columns": {"table_height": rng.normal(size=count)},
            "observation_names": ("hand_x", "hand_y", "object_x", "object_y", "finger"),
            "observation_units": ("m", "m", "m", "m", ""),
            "entities": {"object": (2, 3), "hand": (0, 1)},
            "origin": {"seed": seed, "settings": {"noise": 0.05}},
        }
        fields["event"][0, :2], fields["event"][1, :2] = (
            [0, 1],
            [1, 2],
        )  # so that they first come in the order of their names
        return Sequences(**{**fields, **changes})

    return make


@pytest.fixture
def same():
    """Raises unless both hold the same, padding apart."""

    def compare(a, b, *, without=()):
        assert a.arrays().keys() - {"length"} == b.arrays().keys() - {"length"}
        assert np.array_equal(a.lengths, b.lengths)
        about, other = a.about(), b.about()
        assert {name: about[name] for name in about if name not in without} == {
            name: other[name] for name in about if name not in without
        }
        for name, array in a.arrays().items():
            if name == "length":
                continue
            exists = slice(None)
            if array.ndim > 1:
                exists = np.arange(array.shape[1]) < a.lengths[:, None] + (name == "observation")
            other = b.arrays()[name]
            if array.ndim > 1:  # there may be more padding in one than in the other
                rows = min(array.shape[1], other.shape[1])
                array, other, exists = array[:, :rows], other[:, :rows], exists[:, :rows]
            np.testing.assert_array_equal(array[exists], other[exists], err_msg=name)
        return True

    return compare
