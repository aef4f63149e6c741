"""PaddlePaddle on a device with a trial's runtime settings."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import paddle

from ...protocol import Trial

LIBRARIES = Path(paddle.__file__).parent / "libs"
# The flags that influence numbers or speed on a CPU.
FLAGS = ("FLAGS_use_onednn", "FLAGS_use_stride_kernel", "FLAGS_enable_pir_api")


def prepare(trial: Trial) -> None:
    """Select the device and apply the settings."""
    if trial.device != "cpu":
        raise RuntimeError("PaddlePaddle's build on PyPI has no CUDA")
    paddle.set_device("cpu")
    if trial.threads is not None:
        # No public function sets it. Where nothing does, PaddlePaddle uses one thread.
        paddle.base.core.set_num_threads(trial.threads)
    paddle.seed(trial.seed)


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from PaddlePaddle and from its libraries."""
    # No function of PaddlePaddle reports the threads; its OpenMP and its MKL do.
    openmp = ctypes.CDLL(str(LIBRARIES / "libiomp5.so"))
    mkl = ctypes.CDLL(str(LIBRARIES / "libmklml_intel.so"))
    return {
        "name": trial.device,
        "threads": int(openmp.omp_get_max_threads()),
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {
            **paddle.get_flags(list(FLAGS)),
            "mkl_threads": int(mkl.MKL_Get_Max_Threads()),
            "default_dtype": paddle.get_default_dtype(),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}
