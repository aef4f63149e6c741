"""Caffe on a CPU with a trial's runtime settings."""

from __future__ import annotations

from typing import Any

import caffe
from threadpoolctl import threadpool_info, threadpool_limits

from ...protocol import Trial


def prepare(trial: Trial) -> None:
    """Apply the settings; RuntimeError where the device is no CPU."""
    if trial.device != "cpu":
        raise RuntimeError("Debian's Caffe is built without CUDA")
    caffe.set_mode_cpu()
    caffe.set_random_seed(trial.seed)
    if trial.threads is not None:
        threadpool_limits(trial.threads)  # of matrix products; other loops have one thread


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from the BLAS."""
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return {
        "name": trial.device,
        "threads": max(each["num_threads"] for each in libraries),
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {
            "blas": sorted(
                {
                    f"{each['internal_api']} {each['version']} {each.get('architecture', '')}"
                    for each in libraries
                }
            ),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
