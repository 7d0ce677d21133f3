"""The machine that everything runs on: its cores, and JAX made ready for them."""

import os
from contextlib import suppress

FLAGS = {
    "xla_cpu_multi_thread_eigen": "false",
    # A core's widest instructions, where it has them, instead of half of them: a twentieth off the time of an update.
    "xla_cpu_prefer_vector_width": "512",
}


def cores() -> int:
    """How many cores this process may use, or, where the system does not say that (macOS), how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare(count: int | None = None) -> None:
    """Gives JAX one single-threaded device for each core, or `count` of them, before anything is computed.

    Models of these sizes train almost twice as fast when every core has its own than when all cores share each
    product. Where something has been computed already, or JAX uses other devices than CPUs, nothing changes.
    """
    import jax

    for flag, value in FLAGS.items():
        flags = os.environ.get("XLA_FLAGS", "")
        if flag not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --{flag}={value}".strip()
    # GPUs would round the factors of products to 10 bits, which gates near their threshold notice.
    jax.config.update("jax_default_matmul_precision", "float32")
    with suppress(RuntimeError):  # too late: JAX has started
        jax.config.update("jax_num_cpu_devices", count or cores())


def devices() -> str:
    """What JAX computes on, in words."""
    import jax

    found = jax.local_devices()
    return f"{len(found)} × {found[0].device_kind}"
