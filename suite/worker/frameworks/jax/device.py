"""JAX on a device with a trial's runtime settings; Keras uses it too."""

from __future__ import annotations

import os
from typing import Any

import jax

from ...protocol import Trial


def prepare(trial: Trial) -> None:
    """Select the device and apply the settings."""
    if trial.variant == "triton_gemm":
        os.environ["XLA_FLAGS"] = "--xla_gpu_triton_gemm_any=true"  # read by the first device
    jax.config.update("jax_enable_x64", trial.dtype == "float64")
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # even where there is a GPU
    else:
        # Raises where there is no such device; otherwise it is JAX's default.
        jax.devices(trial.device.partition(":")[0])
    if trial.tf32 is not None:
        # "default" means TF32 on a GPU that has it; on a TPU it means bfloat16, which is no TF32.
        has_tf32 = trial.device.startswith("cuda")
        precision = "default" if trial.tf32 and has_tf32 else "highest"
        jax.config.update("jax_default_matmul_precision", precision)


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from JAX; unknown values are null."""
    # XLA uses as many threads as CPUs, but does not report the number.
    precision, on_gpu = jax.config.jax_default_matmul_precision, trial.device.startswith("cuda")
    return {
        "name": trial.device,
        "threads": None,
        "kind": jax.local_devices()[0].device_kind,
        "tf32": on_gpu and precision not in ("highest", "float32"),
        "preallocates": on_gpu and os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false",
        "policy": {
            "default_matmul_precision": precision,
            "enable_x64": jax.config.jax_enable_x64,
            "xla_flags": os.environ.get("XLA_FLAGS"),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The peak of XLA's allocator: bytes in arrays, and bytes reserved for them."""
    stats = jax.local_devices()[0].memory_stats() or {}  # a CPU has none
    return {
        "device_peak_bytes": stats.get("peak_bytes_in_use"),
        "device_reserved_bytes": stats.get("peak_pool_bytes", stats.get("pool_bytes")),
    }
