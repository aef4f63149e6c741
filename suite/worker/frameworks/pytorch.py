"""PyTorch: eager, in its default or in channels-last memory, and compiled by torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..protocol import Array, Trial, Weights

LAYOUT = "NCHW"


def version() -> str:
    return torch.__version__


def device(trial: Trial) -> dict[str, Any]:
    kind = None if trial.device == "cpu" else torch.cuda.get_device_name(trial.device)
    return {"name": trial.device, "threads": torch.get_num_threads(), "kind": kind}


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        torch.set_num_threads(len(trial.cpus))
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        dtype = getattr(torch, trial.precision)
        self._device = torch.device(trial.device)
        self._model = nn.Sequential()
        for layer in trial.layers:
            self._model.add_module(layer["name"], _lower(layer))
        channels_last = trial.variant == "channels_last"
        self._memory = torch.channels_last if channels_last else torch.contiguous_format
        self._model.to(self._device, dtype, memory_format=self._memory)
        self._model.load_state_dict({name: torch.tensor(w) for name, w in weights.items()})
        self._parameters = dict(self._model.named_parameters())
        self._optimizer = _optimizer(trial, self._model)
        self._loss = nn.CrossEntropyLoss()
        self._run = torch.compile(self._model) if trial.variant == "compiled" else self._model

    def train_step(self, images: Array, labels: Array) -> torch.Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._forward_backward(images, labels)
        self._optimizer.step()
        return loss

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def read(self, loss: torch.Tensor) -> float:
        return loss.item()

    def logits(self, images: Array) -> Array:
        self._model.eval()
        with torch.inference_mode():
            logits: Array = self._run(self._input(images)).cpu().numpy()
        self._model.train()
        return logits

    def gradients(self, images: Array, labels: Array) -> Weights:
        self._optimizer.zero_grad(set_to_none=True)
        self._forward_backward(images, labels)
        return {name: p.grad.cpu().numpy().copy() for name, p in self._parameters.items()}

    def weights(self) -> Weights:
        return {name: p.detach().cpu().numpy().copy() for name, p in self._parameters.items()}

    def _input(self, images: Array) -> torch.Tensor:
        return torch.from_numpy(images).to(self._device).contiguous(memory_format=self._memory)

    def _forward_backward(self, images: Array, labels: Array) -> torch.Tensor:
        logits = self._run(self._input(images))
        targets = torch.from_numpy(labels).to(self._device).long()
        loss: torch.Tensor = self._loss(logits, targets)
        loss.backward()
        return loss.detach()


def _lower(layer: dict[str, Any]) -> nn.Module:
    kind = layer["kind"]
    if kind == "conv2d":
        return nn.Conv2d(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel"],
            stride=layer["stride"],
            padding=layer["padding"],
            bias=layer["bias"],
        )
    if kind == "max_pool2d":
        return nn.MaxPool2d(layer["kernel"], stride=layer["stride"], padding=layer["padding"])
    if kind == "flatten":
        return nn.Flatten()
    if kind == "dense":
        return nn.Linear(layer["in_features"], layer["out_features"], bias=layer["bias"])
    if kind == "relu":
        return nn.ReLU()
    raise NotImplementedError(f"PyTorch module has no layer {kind!r}")


def _optimizer(trial: Trial, model: nn.Module) -> torch.optim.Optimizer:
    optimizer = trial.optimizer
    if optimizer["name"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=optimizer["learning_rate"])
    raise NotImplementedError(f"PyTorch module has no optimizer {optimizer['name']!r}")
