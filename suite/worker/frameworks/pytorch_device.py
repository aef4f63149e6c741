"""PyTorch on a device with so many threads, in plain float32: for its own module and Keras's."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol import Trial


def prepare(trial: Trial) -> None:
    torch.set_num_threads(len(trial.cpus))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def describe(trial: Trial) -> dict[str, Any]:
    kind = None if trial.device == "cpu" else torch.cuda.get_device_name(trial.device)
    backends = torch.backends
    return {
        "name": trial.device,
        "threads": torch.get_num_threads(),
        "kind": kind,
        "tf32": backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32,
        "preallocates": False,
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Peaks of the caching allocator: what tensors took, and what it held for them."""
    if trial.device == "cpu":
        return {}
    return {
        "device_peak_bytes": torch.cuda.max_memory_allocated(trial.device),
        "device_reserved_bytes": torch.cuda.max_memory_reserved(trial.device),
    }
