"""The parts of Keras's module that depend on the backend, for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras
import torch

from ...protocol import Array, Trial
from ..pytorch import device

_until_exit = ExitStack()  # keeps a context until the process ends
describe, memory = device.describe, device.memory


def prepare(trial: Trial) -> None:
    """Select the device and apply the settings."""
    device.prepare(trial)
    torch.zeros(1, device=trial.device)  # raises where there is no such device
    _until_exit.enter_context(keras.device(trial.device))  # without it Keras uses any GPU it finds


def put(inputs: Array, labels: Array) -> tuple[torch.Tensor, torch.Tensor]:
    return _tensor(inputs), _tensor(labels)


def _tensor(values: Array) -> torch.Tensor:
    # From a numpy array, Keras would make a copy first.
    return keras.ops.convert_to_tensor(torch.from_numpy(values))


def predictor(model: Any, trial: Trial) -> Callable[[Array], Array]:
    """The model as a function of arrays, called eagerly, without what gradients would need."""

    def predict(inputs: Array) -> Array:
        with torch.inference_mode():
            logits: Array = model(_tensor(inputs), training=False).cpu().numpy()
        return logits

    return predict


def whole(gradient: Any) -> Any:
    """A gradient as a tensor, which it is."""
    return gradient


class Trainer:
    """Runs a compiled model's training function, as `fit` does."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
        logs: dict[str, Any] = self._model.train_function((batch,))
        return logs

    def settle(self) -> None:
        """Do nothing: the state is always in the model's variables."""

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
