"""Training is tested as it is used: with single precision, which the tests of exact things elsewhere switch off."""

from pathlib import Path

import jax
import pytest
from tiny import example

from saccade import sequences


@pytest.fixture(scope="module", autouse=True)
def _single_precision():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory):
    """Programs compiled once are found again, also by other processes: most of the time would go into compiling."""
    folder = tmp_path_factory.mktemp("compiled")
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield settings
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder of small training and validation sequences."""
    place = tmp_path_factory.mktemp("data")
    sequences.save(example(24), place / "train.safetensors")
    sequences.save(example(24, seed=1), place / "validation.safetensors")
    return place
