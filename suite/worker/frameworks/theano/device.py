"""Theano on a CPU with a trial's runtime settings."""

from __future__ import annotations

from typing import Any

import theano

from ... import blas
from ...protocol import Trial

# The settings that influence numbers or speed.
POLICY = ("linker", "optimizer", "floatX", "cast_policy", "openmp")


def prepare(trial: Trial) -> None:
    """Apply the settings; RuntimeError where the device is no CPU, or a compiler is missing."""
    if trial.device != "cpu":
        raise RuntimeError("Theano's CUDA (libgpuarray) cannot be installed from PyPI")
    if not theano.config.cxx:
        raise RuntimeError("Theano needs a C++ compiler: install g++")
    theano.config.floatX = trial.dtype
    blas.limit_threads(trial)  # other loops have one thread


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from Theano and from the BLAS."""
    return blas.describe(trial, {name: getattr(theano.config, name) for name in POLICY})


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
