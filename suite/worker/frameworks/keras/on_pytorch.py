"""What Keras leaves to its user where PyTorch is its backend."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import keras
import torch

from ...protocol import Array, Trial
from ..pytorch import device as pytorch_device

_for_good = ExitStack()
describe, memory = pytorch_device.describe, pytorch_device.memory


def prepare(trial: Trial) -> None:
    pytorch_device.prepare(trial)
    torch.zeros(1, device=trial.device)  # raises where there is no such device
    _for_good.enter_context(keras.device(trial.device))  # else it takes a GPU wherever it sees one


def put(inputs: Array, labels: Array) -> tuple[torch.Tensor, torch.Tensor]:
    return _tensor(inputs), _tensor(labels)


def _tensor(values: Array) -> torch.Tensor:
    # Of an array Keras would make a copy first.
    return keras.ops.convert_to_tensor(torch.from_numpy(values))


class Trainer:
    """Runs a compiled model's training function, as `fit` does."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
        logs: dict[str, Any] = self._model.train_function((batch,))
        return logs

    def settle(self) -> None:
        """Nothing: each step leaves all in the model's variables."""

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
