"""JAX on a device, under a trial's conditions: for its own module and Keras's."""

from __future__ import annotations

import os
from typing import Any

import jax

from ...protocol import Trial


def prepare(trial: Trial) -> None:
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # even where it sees a GPU
    else:
        jax.devices("cuda")  # raises where there is none; where there is one it computes there

    if trial.tf32 is not None:  # the "default" of a GPU that has TF32 is to use it
        precision = "default" if trial.tf32 else "highest"
        jax.config.update("jax_default_matmul_precision", precision)


def describe(trial: Trial) -> dict[str, Any]:
    # XLA takes as many threads as it finds CPUs, and does not tell: null.
    precision, on_gpu = jax.config.jax_default_matmul_precision, trial.device != "cpu"
    return {
        "name": trial.device,
        "threads": None,
        "kind": jax.devices()[0].device_kind,
        "tf32": on_gpu and precision not in ("highest", "float32"),
        "preallocates": on_gpu and os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false",
        "policy": {
            "default_matmul_precision": precision,
            "enable_x64": jax.config.jax_enable_x64,
            "xla_flags": os.environ.get("XLA_FLAGS"),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """XLA's allocator: the peak of what arrays took, and what it holds for them."""
    stats = jax.devices()[0].memory_stats() or {}  # of a CPU there are none
    return {
        "device_peak_bytes": stats.get("peak_bytes_in_use"),
        "device_reserved_bytes": stats.get("peak_pool_bytes", stats.get("pool_bytes")),
    }
