"""The training benchmark says what it promises, and counts the operations that the models' sizes ask for."""

import pytest
from tiny import example

from saccade import preset
from saccade.benchmarks.train import SKIPS, _forget_peak, _peak_mib, benchmark, flops
from saccade.sequences import save


@pytest.mark.parametrize(
    ("name", "skip_steps", "gflop"), [("paper", 0, 0.54), ("original", 0, 1.30), ("paper", 25, 0.54 + 5.43)]
)
def test_operations_of_an_update_are_those_of_its_matrix_products(name, skip_steps, gflop):
    assert flops(preset(name), 192, 25, skip_steps) / 1e9 == pytest.approx(gflop, rel=0.03)


def test_every_case_is_measured_against_the_matrix_products_of_the_same_run(tmp_path):
    for part in ("train", "validation"):
        save(example(), tmp_path / f"{part}.safetensors")
    found = benchmark(tmp_path, models=(2,), presets=("paper",), repeats=1, seconds=0.01)
    assert [(row["preset"], row["models"], row["skip"]) for row in found["rows"]] == [
        ("paper", 2, skip) for skip in SKIPS
    ]
    for row in found["rows"]:
        rate = row["gflop_per_update"] / (row["ms_per_update_per_model"] / 1000)
        assert 0 < row["share_of_matmul_rate"] < 1
        assert rate < found["matmul_gflops"]
        assert row["peak_mib"] > 0
    assert found["batch"] == 192
    assert found["steps"] == 8


def test_the_peak_of_memory_is_each_rows_own():
    held = bytearray(300 * 2**20)
    high = _peak_mib()
    del held
    _forget_peak()
    assert _peak_mib() < high - 200
