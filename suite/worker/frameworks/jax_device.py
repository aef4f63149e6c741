"""JAX on a device, in plain float32: for its own module and Keras's."""

from __future__ import annotations

import os
from typing import Any

import jax

from ..protocol import Trial


def prepare(trial: Trial) -> None:
    # Read when a GPU is first used; else JAX takes three quarters of its memory at once.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # even where it sees a GPU
    else:
        jax.devices("cuda")  # raises where there is none; where there is one it computes there
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32


def describe(trial: Trial) -> dict[str, Any]:
    # XLA takes as many threads as it finds CPUs, and does not tell: null.
    precision = jax.config.jax_default_matmul_precision
    return {
        "name": trial.device,
        "threads": None,
        "kind": jax.devices()[0].device_kind,
        "tf32": trial.device != "cpu" and precision not in ("highest", "float32"),
        "preallocates": os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] != "false",
    }


def memory(trial: Trial) -> dict[str, Any]:
    """XLA's allocator: the peak of what arrays took, and what it holds for them."""
    stats = jax.devices()[0].memory_stats() or {}  # of a CPU there are none
    return {
        "device_peak_bytes": stats.get("peak_bytes_in_use"),
        "device_reserved_bytes": stats.get("peak_pool_bytes", stats.get("pool_bytes")),
    }
