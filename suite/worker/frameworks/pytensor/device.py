"""PyTensor on a CPU with a trial's runtime settings."""

from __future__ import annotations

from typing import Any

import pytensor

from ... import blas
from ...protocol import Trial

# The settings that influence numbers or speed.
POLICY = ("linker", "optimizer", "floatX", "cast_policy", "numba__fastmath")


def prepare(trial: Trial) -> None:
    """Apply the settings; RuntimeError where the device is no CPU."""
    if trial.device != "cpu":
        raise RuntimeError("PyTensor has no CUDA")
    pytensor.config.floatX = trial.dtype
    blas.limit_threads(trial)  # Numba's loops have one thread


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from PyTensor and from the BLAS."""
    return blas.describe(trial, {name: getattr(pytensor.config, name) for name in POLICY})


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
