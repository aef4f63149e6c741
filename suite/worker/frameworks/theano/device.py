"""Theano on a CPU with a trial's runtime settings."""

from __future__ import annotations

from typing import Any

import theano
from threadpoolctl import threadpool_info, threadpool_limits

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
    if trial.threads is not None:
        threadpool_limits(trial.threads)  # of matrix products; other loops have one thread


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from Theano and from the BLAS."""
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return {
        "name": trial.device,
        "threads": max(each["num_threads"] for each in libraries),
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {
            **{name: getattr(theano.config, name) for name in POLICY},
            "blas": sorted({f"{each['internal_api']} {each['version']}" for each in libraries}),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
