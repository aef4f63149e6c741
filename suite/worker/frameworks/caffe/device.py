"""Caffe on a CPU with a trial's runtime settings."""

from __future__ import annotations

from typing import Any

import caffe

from ... import blas
from ...protocol import Trial


def prepare(trial: Trial) -> None:
    """Apply the settings; RuntimeError where the device is no CPU."""
    if trial.device != "cpu":
        raise RuntimeError("Debian's Caffe is built without CUDA")
    caffe.set_mode_cpu()
    caffe.set_random_seed(trial.seed)
    blas.limit_threads(trial)  # other loops have one thread


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from the BLAS."""
    return blas.describe(trial, {}, "architecture")


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
