"""PyTorch for inference: eager, in its default or in channels-last memory, or compiled.

Batch norms are folded into the convolution before them by PyTorch's own function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from ...protocol import Array, Trial, Weights
from . import device as pytorch_device
from . import rounding
from .layers import BatchNorm, build, parameter_of
from .session import COMPILED, LAYOUT, SETTINGS, device, memory, version

__all__ = ["LAYOUT", "SETTINGS", "Predictor", "device", "memory", "version"]


class Predictor:
    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        pytorch_device.prepare(trial)
        torch.set_default_dtype(getattr(torch, trial.dtype))
        self._device = torch.device(trial.device)
        of_images = len(trial.architecture["input_shape"]) == 3
        channels_last = trial.variant != "eager" and of_images
        self._memory = torch.channels_last if channels_last else torch.contiguous_format
        modules: dict[str, nn.Module] = {}
        model = _loaded(trial, weights, statistics, modules).eval()
        if not trial.simulated_bits:
            _fold(model)
        self._run: Any = model.requires_grad_(False).to(self._device, memory_format=self._memory)
        if trial.simulated_bits:
            self._run = rounding.simulated(model, modules, trial.simulated_bits)
        if trial.variant in COMPILED:
            # The weights become constants of the program, in the layout that its kernels want.
            torch._inductor.config.freezing = True
            self._run = torch.compile(self._run, mode=COMPILED[trial.variant], dynamic=False)

    def predict(self, inputs: Array) -> Array:
        with torch.inference_mode():
            batch = torch.from_numpy(inputs).to(self._device)
            result = self._run(batch.contiguous(memory_format=self._memory))
            logits: Array = result.contiguous().cpu().numpy()
        return logits


def _loaded(
    trial: Trial, weights: Weights, statistics: Weights, modules: dict[str, nn.Module]
) -> nn.Module:
    """The model with its weights and the running statistics of its batch norms.

    Its layers are added to `modules` by name.
    """
    model = build(trial, trial.batch_size, modules)
    with torch.no_grad():
        for name, values in weights.items():
            parameter_of(modules, name).copy_(torch.from_numpy(values))
        for name, module in modules.items():
            if isinstance(module, BatchNorm):
                moments = (statistics[f"{name}.{each}"] for each in ("mean", "variance"))
                module.restore(*map(torch.from_numpy, moments))
    return model


def _fold(model: nn.Module) -> None:
    """Fold each batch norm into the convolution before it, in all series of the model."""
    for part in model.modules():
        if isinstance(part, nn.Sequential):
            _fold_series(part)


def _fold_series(layers: nn.Sequential) -> None:
    before: tuple[str, nn.Module] | None = None
    for name, layer in [*layers.named_children()]:
        if isinstance(layer, BatchNorm):
            plain = layer.plain()
            if before and isinstance(before[1], nn.Conv2d):
                layers.register_module(before[0], fuse_conv_bn_eval(before[1], plain))
                layers.register_module(name, nn.Identity())
            else:
                layers.register_module(name, plain)
        before = name, layer
