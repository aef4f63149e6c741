"""PyTorch: eager, in its default or in channels-last memory, and in the latter also compiled.

Two variants are eager in channels-last memory too: `fused` and `cuda_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn

from ... import schedules
from ...protocol import AVERAGE, STEPS_PER_CALL, Array, State, Trial, Weights
from . import cuda_graph, distributed, rounding
from . import device as pytorch_device
from .device import on_device
from .lamb import Lamb
from .layers import BatchNorm, build, parameter_of

LAYOUT = "NCHW"
# The names of the slots in the optimizers' states.
SLOTS = {
    "sgd": {},
    "momentum": {"velocity": "momentum_buffer"},
    "adam": {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"},
    "adamw": {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"},
    "lamb": {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"},
    "rmsprop": {"second_moment": "square"},
}
LOSSES = {
    "cross_entropy": nn.CrossEntropyLoss,
    "mean_squared_error": nn.MSELoss,
    "huber": nn.HuberLoss,
    "binary_cross_entropy": nn.BCEWithLogitsLoss,
}
SETTINGS = ("cudnn_benchmark", "deterministic", "fused_optimizer")
# The modes of torch.compile, by variant.
COMPILED = {
    "compiled": "default",
    "reduce_overhead": "reduce-overhead",
    "max_autotune": "max-autotune",
}


def version() -> str:
    return torch.__version__


device = pytorch_device.describe
memory = pytorch_device.memory


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        pytorch_device.prepare(trial)
        if trial.world_size > 1:
            distributed.join(trial)
        torch.set_default_dtype(getattr(torch, trial.dtype))
        self._device = torch.device(trial.device)
        modules: dict[str, nn.Module] = {}
        self._model = build(trial, trial.slice_size, modules)
        of_images = len(trial.architecture["input_shape"]) == 3
        # `compiled` uses channels-last memory too. The compiler converts images to it anyway, and
        # where it did so, torch 2.13 computed zero gradients before max-pools
        # (pytorch/pytorch#185509, docs/measurements/proofs-of-the-models.md).
        channels_last = trial.variant != "eager" and of_images
        self._memory = torch.channels_last if channels_last else torch.contiguous_format
        self._model.to(self._device, memory_format=self._memory)
        self._norms = {name: m for name, m in modules.items() if isinstance(m, BatchNorm)}
        for norm in self._norms.values():
            norm.slices = trial.own_slices
        self._parameters = {name: parameter_of(modules, name) for name in weights}
        with torch.no_grad():
            for name, values in weights.items():
                self._parameters[name].copy_(torch.from_numpy(values))
        self._optimizer = _optimizer(trial, self._parameters)
        self._rate = trial.optimizer["learning_rate"]
        self._schedule = trial.optimizer.get("schedule")
        self._slots = SLOTS[trial.optimizer["name"]]
        self._ema_decay = trial.ema_decay
        self._averages: dict[str, torch.Tensor] = {}
        if self._ema_decay is not None:
            self._averages = {n: p.detach().clone() for n, p in self._parameters.items()}
        # Only Adam has a count of steps in its state. The hook is called after each step that
        # was actually done.
        self._steps: Any = 0
        graphed = trial.variant == "cuda_graph"
        self._graph = self._capturable() if graphed else None
        self.steps_per_call = STEPS_PER_CALL if graphed else 1
        self._optimizer.register_step_post_hook(self._count)
        self._seed = trial.seed
        torch.manual_seed(trial.seed + trial.rank)  # other dropout masks on each rank
        self._loss = LOSSES[trial.loss](**_loss_options(trial))
        self._clip_norm = trial.optimizer.get("clip_norm")
        self._micro_batches = trial.accumulate
        # The gradient of the batch's mean loss for that of a micro-batch; None: the batch is whole.
        self._share: torch.Tensor | None = None
        if trial.accumulate > 1:
            self._share = torch.tensor(1 / trial.accumulate, device=self._device)
        self._run: Any = self._model
        if trial.world_size > 1:
            self._run = distributed.data_parallel(self._model, self._device)
        if trial.variant in COMPILED:
            self._run = torch.compile(self._run, mode=COMPILED[trial.variant])
        self._autocast: AbstractContextManager[Any] = (
            torch.autocast(self._device.type, torch.bfloat16) if trial.mixed else nullcontext()
        )
        if trial.simulated_bits:
            self._run = rounding.simulated(self._model, modules, trial.simulated_bits)

    def put(self, inputs: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
        targets = on_device(torch.as_tensor(labels), self._device)
        return self._input(inputs), targets if targets.is_floating_point() else targets.long()

    def train_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        if self._graph:
            return self._graph(batch[0][None], batch[1][None])
        return self._step(batch)

    def train_steps(self, batches: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        assert self._graph
        return self._graph(*batches)

    def _step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._backward(batch) if self._share is None else self._accumulate(batch)
        if self._clip_norm is not None:
            self._clip(self._clip_norm)
        if self._schedule:
            self._set_rate(self._schedule)
        self._optimizer.step()
        if self._ema_decay is not None:
            self._average(1 - self._ema_decay)
        return loss

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _average(self, share: float) -> None:
        """Add the weights to their averages, as get_ema_multi_avg_fn of torch.optim.swa_utils."""
        parameters = list(self._parameters.values())
        torch._foreach_lerp_(list(self._averages.values()), parameters, share)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The model with the averages of the weights, if there are any."""
        own = {name: self._parameters[name].data for name in self._averages}
        for name, average in self._averages.items():
            self._parameters[name].data = average
        try:
            yield
        finally:
            for name, values in own.items():
                self._parameters[name].data = values

    def _backward(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The mean loss of a batch, whose gradients are added to those of the parameters."""
        loss: torch.Tensor = self._mean_loss(self._forward(batch[0]), batch[1])
        loss.backward(self._share)
        return loss.detach()

    def _accumulate(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The same, with the mean gradients of its micro-batches, one after the other."""
        micro_batches = zip(*(each.chunk(self._micro_batches) for each in batch))
        losses = [self._backward(each) for each in micro_batches]
        return torch.stack(losses).mean()

    def _set_rate(self, schedule: dict[str, Any]) -> None:
        """Set the learning rate of the next step."""
        rate = self._rate * schedules.share(schedule, float(self._steps), np)
        for group in self._optimizer.param_groups:
            group["lr"] = float(rate)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _clip(self, largest: float) -> None:
        """Scale the gradients to this norm, where it is more.

        torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
        """
        gradients = [each.grad for each in self._parameters.values() if each.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, (largest / norm).clamp(max=1.0))

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def read(self, loss: torch.Tensor) -> float:
        return loss.item()

    def logits(self, inputs: Array) -> Array:
        self._model.eval()
        with self._averaged(), torch.inference_mode():
            logits = self._forward(self._input(inputs))
        self._model.train()
        return _numpy(logits)

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        before = [buffer.clone() for buffer in self._model.buffers()]
        self._optimizer.zero_grad(set_to_none=True)
        images, targets = self.put(inputs, labels)
        logits = self._forward(images)
        self._mean_loss(logits, targets).backward()
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

    def optimizer_state(self) -> dict[str, Weights]:
        state, named = self._optimizer.state, self._parameters.items()
        found = {
            slot: {name: _numpy(state[parameter][key]) for name, parameter in named}
            for slot, key in self._slots.items()
        }
        if self._averages:
            found[AVERAGE] = {name: _numpy(each) for name, each in self._averages.items()}
        return found

    def step_count(self) -> int:
        state: dict[str, Any] = next(iter(self._optimizer.state.values()), {})
        return int(state.get("step", self._steps))

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def restore(self, state: State) -> None:
        for name, values in state.weights.items():
            self._parameters[name].copy_(torch.from_numpy(values))
        for name, norm in self._norms.items():
            moments = (state.statistics[f"{name}.{each}"] for each in ("mean", "variance"))
            norm.restore(*map(torch.from_numpy, moments))
        for name, parameter in self._parameters.items():
            parameter_state = self._optimizer.state[parameter]
            for slot, key in self._slots.items():
                values = torch.from_numpy(state.optimizer[slot][name])
                parameter_state[key] = torch.empty_like(parameter).copy_(values)
            if "first_moment" in self._slots:
                step = parameter_state.get("step", torch.tensor(0.0))
                parameter_state["step"] = torch.full_like(step, state.steps)
        for name, average in self._averages.items():
            average.copy_(torch.from_numpy(state.optimizer[AVERAGE][name]))
        self._steps = state.steps
        torch.manual_seed(self._seed)
        self._seed += 1  # the next `restore` gives other dropout masks

    def exchange(self, values: Array) -> Callable[[], None]:
        return distributed.exchange(torch.from_numpy(values).to(self._device), self.synchronize)

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits, in the type of the loss."""
        with self._autocast:
            logits: torch.Tensor = self._run(images)
        return logits.to(torch.get_default_dtype())

    def _mean_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not labels.is_floating_point():  # classes
            logits, labels = logits.flatten(0, -2), labels.flatten()
        loss: torch.Tensor = self._loss(logits, labels)
        return loss

    def _count(self, optimizer: Any, *arguments: Any) -> None:
        self._steps += 1

    def _capturable(self) -> cuda_graph.Steps:
        """The steps as CUDA graphs. Whatever a step changes becomes a tensor on the device."""
        self._steps = torch.zeros((), dtype=torch.int64, device=self._device)
        for parameter in self._parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        self._make_slots()
        return cuda_graph.Steps(self._step, self._changed)

    def _make_slots(self) -> None:
        """Make the optimizer's slots by a step that changes nothing.

        All gradients are 0, and so is the learning rate, by which AdamW also shrinks the weights.
        """
        groups = self._optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = 0.0
        self._optimizer.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        for tensor in self._slot_tensors():
            tensor.zero_()
        self._steps.zero_()

    def _changed(self) -> Iterator[torch.Tensor]:
        """All tensors that a step changes."""
        yield self._steps
        yield from self._model.parameters()
        yield from self._model.buffers()
        yield from self._averages.values()
        yield from self._slot_tensors()

    def _slot_tensors(self) -> Iterator[torch.Tensor]:
        for slots in self._optimizer.state.values():
            yield from (slot for slot in slots.values() if isinstance(slot, torch.Tensor))

    def _input(self, inputs: Any) -> torch.Tensor:
        images = on_device(torch.as_tensor(inputs), self._device)
        if images.dim() == 5 and self._memory == torch.channels_last:  # a stack of batches
            return images.movedim(2, -1).contiguous().movedim(-1, 2)
        return images.contiguous(memory_format=self._memory)


def _numpy(tensor: torch.Tensor) -> Array:
    """A copy, in the trial's dtype."""
    values: Array = tensor.detach().cpu().to(torch.get_default_dtype()).numpy().copy()
    return values


def _loss_options(trial: Trial) -> dict[str, Any]:
    if trial.class_weights:
        return {"weight": torch.tensor(trial.class_weights, device=trial.device)}
    return {"label_smoothing": trial.label_smoothing} if trial.label_smoothing else {}


def _optimizer(trial: Trial, named: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer:
    options, parameters = trial.optimizer, named.values()
    name, rate = options["name"], options["learning_rate"]
    fused = trial.variant == "fused" or trial.settings.get("fused_optimizer") or None
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, fused=fused)
    if name == "momentum":
        numbers = {"momentum": options["momentum"], "nesterov": options.get("nesterov", False)}
        return torch.optim.SGD(parameters, lr=rate, **numbers, fused=fused)
    own = {"fused": fused, "capturable": trial.variant == "cuda_graph"}
    if name == "adam":
        return torch.optim.Adam(parameters, lr=rate, **_adam(options), **own)
    if name in ("adamw", "lamb"):
        decay = options["weight_decay"]
        decaying = [each for name, each in named.items() if name not in trial.exempt]
        exempt = [each for name, each in named.items() if name in trial.exempt]
        if name == "lamb":
            return Lamb(decaying, exempt, lr=rate, weight_decay=decay, **_adam(options))
        groups = [{"params": decaying, "weight_decay": decay}]
        if exempt:
            groups.append({"params": exempt, "weight_decay": 0.0})
        return torch.optim.AdamW(groups, lr=rate, **_adam(options), **own)
    if name == "rmsprop":
        return RMSprop(parameters, rate, options["decay"], options["epsilon"])
    raise NotImplementedError(f"PyTorch module has no optimizer {name!r}")


def _adam(options: dict[str, Any]) -> dict[str, Any]:
    return {"betas": (options["beta1"], options["beta2"]), "eps": options["epsilon"]}


class RMSprop(torch.optim.Optimizer):
    """RMSProp with epsilon inside the square root; torch.optim.RMSprop has it outside."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], rate: float, decay: float, epsilon: float
    ) -> None:
        super().__init__(parameters, {"lr": rate, "decay": decay, "epsilon": epsilon})
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
        torch._foreach_addcdiv_(parameters, gradients, roots, -group["lr"])
