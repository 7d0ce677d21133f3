"""The data benchmark reports what it promises."""

import pytest

from saccade.benchmarks.data import measure
from saccade.checks import InputError


def test_rates_are_measured_in_one_run():
    result = measure(sequences=16, rounds=1, workers=2)
    assert result["sequences_per_s"] > 0
    assert result["sequences"] == 48
    assert result["workers"] == 2
    assert 0 < result["share_of_bare_rate"] < 1.5


def test_nothing_to_measure_is_refused():
    with pytest.raises(InputError, match="rounds is 0"):
        measure(rounds=0)
