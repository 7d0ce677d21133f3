"""The benchmark of planner and policy reports what it promises."""

import pytest

from saccade.benchmarks.apex import benchmark
from saccade.checks import InputError

pytestmark = pytest.mark.xdist_group("fetch")


def test_success_and_times_are_reported_for_each_way_asked_for():
    told = []
    numbers = benchmark(episodes=2, ways=("policy",), progress=lambda *news: told.append(news))
    assert set(numbers) == {"episodes", "processor_us_of_a_step_in_the", "policy"}
    assert all(cost > 0 for cost in numbers["processor_us_of_a_step_in_the"].values())
    assert 0 <= numbers["policy"]["delivered"] <= 1
    assert numbers["policy"]["processor_ms_per_step"] > 0
    assert told == [("policy", 2, 2)]


def test_an_unknown_way_is_refused():
    with pytest.raises(InputError, match="choose one of apex, guided, planner, policy"):
        benchmark(episodes=1, ways=("polcy",))
