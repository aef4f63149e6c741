"""PyTorch on a device with a trial's runtime settings; Keras uses it too."""

from __future__ import annotations

from typing import Any

import torch

from ...protocol import Trial


def prepare(trial: Trial) -> None:
    """Apply the settings."""
    # Not where OMP_NUM_THREADS has set it: the call also turns off MKL's own choice of threads.
    if trial.threads not in (None, torch.get_num_threads()):
        torch.set_num_threads(trial.threads)
    if trial.tf32 is not None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = trial.tf32
    torch.backends.cudnn.benchmark = trial.settings.get("cudnn_benchmark", False)
    if trial.settings.get("deterministic"):
        # A few operations have no deterministic form on a GPU.
        torch.use_deterministic_algorithms(True, warn_only=True)


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on the device. On a GPU, earlier steps still run during the copy.

    That needs pinned memory, which PyTorch reuses only after the copy.
    """
    if device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from PyTorch."""
    kind = None if trial.device == "cpu" else torch.cuda.get_device_name(trial.device)
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    by_cudnn = any(layer["kind"] in ("conv2d", "lstm") for layer in trial.leaves())
    return {
        "name": trial.device,
        "threads": torch.get_num_threads(),
        "kind": kind,
        "tf32": trial.device != "cpu" and (cuda.allow_tf32 or (cudnn.allow_tf32 and by_cudnn)),
        "preallocates": False,
        "policy": {
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "cuda.matmul.allow_tf32": cuda.allow_tf32,
            "cudnn.allow_tf32": cudnn.allow_tf32,
            "cudnn.benchmark": cudnn.benchmark,
            "cudnn.deterministic": cudnn.deterministic,
            "default_dtype": str(torch.get_default_dtype()),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The peaks of the caching allocator: bytes in tensors, and bytes reserved for them."""
    if trial.device == "cpu":
        return {}
    return {
        "device_peak_bytes": torch.cuda.max_memory_allocated(trial.device),
        "device_reserved_bytes": torch.cuda.max_memory_reserved(trial.device),
    }
