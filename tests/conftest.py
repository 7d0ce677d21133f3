"""Tests run with 64-bit numbers allowed, so that what is exact can be shown to be exact."""

import signal

import hypothesis
import jax
import jaxtyping
import pytest

jax.config.update("jax_enable_x64", True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would hand on to ignore it
jax.config.update("jax_disable_most_optimizations", True)  # most of the time would go into compiling


@pytest.fixture
def untyped():
    """Lets wrong input through to the library's own checks, which is all that stands in a user's way."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# Compiling takes longer than Hypothesis allows an example by default.
hypothesis.settings.register_profile("saccade", deadline=None)
hypothesis.settings.load_profile("saccade")
