"""PyTorch: eager, in its default or in channels-last memory, and compiled by torch.compile."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

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
        torch.set_default_dtype(getattr(torch, trial.precision))
        self._device = torch.device(trial.device)
        modules: dict[str, nn.Module] = {}
        self._model = _series(trial.layers, trial.batch_size, modules)
        of_images = len(trial.architecture["input_shape"]) == 3
        channels_last = trial.variant == "channels_last" and of_images
        self._memory = torch.channels_last if channels_last else torch.contiguous_format
        self._model.to(self._device, memory_format=self._memory)
        self._norms = {name: m for name, m in modules.items() if isinstance(m, BatchNorm)}
        self._parameters = {name: _parameter(modules, name) for name in weights}
        with torch.no_grad():
            for name, values in weights.items():
                self._parameters[name].copy_(torch.from_numpy(values))
        self._optimizer = _optimizer(trial, self._parameters.values())
        self._loss = nn.CrossEntropyLoss()
        self._run = torch.compile(self._model) if trial.variant == "compiled" else self._model

    def put(self, inputs: Array, labels: Array) -> tuple[torch.Tensor, torch.Tensor]:
        return self._input(inputs), torch.from_numpy(labels).to(self._device).long()

    def train_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = self._loss(self._run(batch[0]), batch[1])
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def read(self, loss: torch.Tensor) -> float:
        return loss.item()

    def logits(self, inputs: Array) -> Array:
        self._model.eval()
        with torch.inference_mode():
            logits = self._run(self._input(inputs))
        self._model.train()
        return _numpy(logits)

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        before = [buffer.clone() for buffer in self._model.buffers()]
        self._optimizer.zero_grad(set_to_none=True)
        images, targets = self.put(inputs, labels)
        logits = self._run(images)
        self._loss(logits, targets).backward()
        for buffer, values in zip(self._model.buffers(), before):
            buffer.copy_(values)
        return _numpy(logits), {name: _numpy(p.grad) for name, p in self._parameters.items()}

    def weights(self) -> Weights:
        return {name: _numpy(p) for name, p in self._parameters.items()}

    def statistics(self) -> Weights:
        found = {}
        for name, norm in self._norms.items():
            found[f"{name}.mean"] = _numpy(norm.running_mean)
            found[f"{name}.variance"] = _numpy(norm.biased_variance())
        return found

    def _input(self, inputs: Array) -> torch.Tensor:
        return torch.from_numpy(inputs).to(self._device).contiguous(memory_format=self._memory)


def _numpy(tensor: torch.Tensor) -> Array:
    """A copy, in the trial's precision."""
    values: Array = tensor.detach().cpu().to(torch.get_default_dtype()).numpy().copy()
    return values


class BatchNorm(nn.BatchNorm2d):
    """Batch norm whose running variance is the mean of the batches' biased variances.

    PyTorch takes their unbiased ones, which are n / (n - 1) as large. So its running variance
    starts at that ratio instead of 1, stays as many times too large, and is divided by it where
    it is used.
    """

    def __init__(self, layer: dict[str, Any], batch_size: int) -> None:
        super().__init__(layer["channels"], eps=layer["epsilon"], momentum=layer["momentum"])
        values = batch_size * math.prod(layer["input_shape"][1:])
        self._excess = values / (values - 1)
        self.running_var.fill_(self._excess)

    def biased_variance(self) -> torch.Tensor:
        return self.running_var / self._excess

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.training:
            return super().forward(images)
        moments = self.running_mean, self.biased_variance()
        return functional.batch_norm(images, *moments, self.weight, self.bias, eps=self.eps)


class Lstm(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.cell = nn.LSTM(layer["in_features"], layer["hidden"], batch_first=True)
        # The second bias, which the recurrent product has here, stays zero: one is enough.
        nn.init.zeros_(self.cell.bias_hh_l0).requires_grad_(False)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.cell(sequence)[0][:, -1]


class SelfAttention(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self._heads = layer["heads"]
        self.input = nn.Linear(layer["features"], 3 * layer["features"])
        self.output = nn.Linear(layer["features"], layer["features"])

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        batch, length, features = sequence.shape
        # (batch, length, 3 x features) -> three of (batch, heads, length, features / heads)
        parts = self.input(sequence).view(batch, length, 3, self._heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, features))


class ClassToken(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer["features"]))

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.weight.expand(len(sequence), 1, -1), sequence], dim=1)


class PositionEmbedding(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer["length"], layer["features"]))

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return sequence + self.weight


class Branches(nn.Module):
    """Several series on one input, their results added or put one after the other."""

    def __init__(self, kind: str, series: list[nn.Module]) -> None:
        super().__init__()
        self._concat = kind == "concat"
        self.series = nn.ModuleList(series)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        results = [series(values) for series in self.series]
        return torch.cat(results, dim=1) if self._concat else sum(results[1:], results[0])


class Apply(nn.Module):
    """A function of one tensor that has no module of its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._function(values)


def _series(layers: list[Any], batch_size: int, modules: dict[str, nn.Module]) -> nn.Sequential:
    """The layers one after the other; each is put into `modules` under its name too."""
    series = nn.Sequential()
    for layer in layers:
        if "branches" in layer:
            inner = [_series(branch, batch_size, modules) for branch in layer["branches"]]
            module: nn.Module = Branches(layer["kind"], inner)
        else:
            module = modules[layer["name"]] = _lower(layer, batch_size)
        series.add_module(layer["name"], module)
    return series


def _lower(layer: dict[str, Any], batch_size: int) -> nn.Module:
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
        sizes = {"stride": layer["stride"], "padding": layer["padding"]}
        return nn.MaxPool2d(layer["kernel"], **sizes, ceil_mode=layer["ceil"])
    if kind == "avg_pool2d":
        return nn.AvgPool2d(layer["kernel"], stride=layer["stride"], padding=layer["padding"])
    if kind == "dense":
        return nn.Linear(layer["in_features"], layer["out_features"], bias=layer["bias"])
    if kind == "batch_norm":
        return BatchNorm(layer, batch_size)
    if kind == "layer_norm":
        return nn.LayerNorm(layer["features"], eps=layer["epsilon"])
    if kind == "dropout":
        return nn.Dropout(layer["rate"])
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind in SEQUENCES:
        return SEQUENCES[kind](layer)
    raise NotImplementedError(f"PyTorch module has no layer {kind!r}")


SIMPLE = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "flatten": nn.Flatten,
    "global_avg_pool2d": lambda: Apply(lambda images: images.mean((2, 3))),
    "rows": lambda: Apply(lambda images: images.squeeze(1)),
    "tokens": lambda: Apply(lambda images: images.flatten(2).transpose(1, 2)),
    "first_token": lambda: Apply(lambda sequence: sequence[:, 0]),
}
SEQUENCES = {
    "class_token": ClassToken,
    "position_embedding": PositionEmbedding,
    "self_attention": SelfAttention,
    "lstm": Lstm,
}
# Where a module keeps a parameter, if not under its canonical role.
ROLES = {
    "input_weight": "cell.weight_ih_l0",
    "hidden_weight": "cell.weight_hh_l0",
    "in_weight": "input.weight",
    "in_bias": "input.bias",
    "out_weight": "output.weight",
    "out_bias": "output.bias",
}


def _parameter(modules: dict[str, nn.Module], name: str) -> nn.Parameter:
    layer, role = name.split(".")
    module = modules[layer]
    if isinstance(module, Lstm) and role == "bias":
        return module.cell.bias_ih_l0
    return module.get_parameter(ROLES.get(role, role))


def _optimizer(trial: Trial, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    how = trial.optimizer
    name, rate = how["name"], how["learning_rate"]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=rate, momentum=how["momentum"])
    if name == "adam":
        betas = how["beta1"], how["beta2"]
        return torch.optim.Adam(parameters, lr=rate, betas=betas, eps=how["epsilon"])
    if name == "rmsprop":
        return RMSprop(parameters, rate, how["decay"], how["epsilon"])
    raise NotImplementedError(f"PyTorch module has no optimizer {name!r}")


class RMSprop(torch.optim.Optimizer):
    """With epsilon inside the square root; torch.optim.RMSprop has it outside."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], rate: float, decay: float, epsilon: float
    ) -> None:
        super().__init__(parameters, {"rate": rate, "decay": decay, "epsilon": epsilon})
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["square"] = torch.zeros_like(parameter)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self) -> None:
        group = self.param_groups[0]
        parameters, decay = group["params"], group["decay"]
        gradients = [parameter.grad for parameter in parameters]
        squares = [self.state[parameter]["square"] for parameter in parameters]
        torch._foreach_mul_(squares, decay)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - decay)
        roots = torch._foreach_add(squares, group["epsilon"])
        torch._foreach_sqrt_(roots)
        torch._foreach_addcdiv_(parameters, gradients, roots, -group["rate"])
