"""What Keras leaves to its user where PyTorch is its backend."""

from __future__ import annotations

from typing import Any

import keras
import torch

from ..protocol import Array, Trial


def device(trial: Trial) -> dict[str, Any]:
    kind = None if trial.device == "cpu" else torch.cuda.get_device_name(trial.device)
    return {"threads": torch.get_num_threads(), "kind": kind}


def prepare(trial: Trial) -> None:
    torch.set_num_threads(len(trial.cpus))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.zeros(1, device=trial.device)  # raises where there is no such device
    keras.device(trial.device).__enter__()  # for good; else it would take a GPU wherever it is


def put(inputs: Array, labels: Array) -> tuple[torch.Tensor, torch.Tensor]:
    place = keras.src.backend.torch.core.get_device()
    return torch.from_numpy(inputs).to(place), torch.from_numpy(labels).to(place)


def step(model: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    logs: dict[str, Any] = model.train_function((batch,))
    return logs


def settle(model: Any) -> None:
    """Nothing: a step leaves all in the model's variables."""


def synchronize(model: Any) -> None:
    """Wait for the device; on the CPU every step is done when it returns."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
