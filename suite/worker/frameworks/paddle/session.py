"""PaddlePaddle: eager, and with its model compiled to a static program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
from paddle import nn

from ... import schedules
from ...protocol import AVERAGE, Array, State, Trial, Weights
from . import device as paddle_device
from .layers import BatchNorm, build, parameter_of

LAYOUT = "NCHW"
# The names of the slots in the optimizers' accumulators.
SLOTS = {
    "sgd": {},
    "momentum": {"velocity": "velocity"},
    "adam": {"first_moment": "moment1", "second_moment": "moment2"},
    "adamw": {"first_moment": "moment1", "second_moment": "moment2"},
    "lamb": {"first_moment": "moment1", "second_moment": "moment2"},
    "rmsprop": {"second_moment": "mean_square"},
}
LOSSES = {
    "cross_entropy": nn.CrossEntropyLoss,
    "mean_squared_error": nn.MSELoss,
    "huber": nn.SmoothL1Loss,
    "binary_cross_entropy": nn.BCEWithLogitsLoss,
}


def version() -> str:
    return str(paddle.__version__)


device = paddle_device.describe
memory = paddle_device.memory


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        paddle_device.prepare(trial)
        paddle.set_default_dtype(trial.dtype)
        made: dict[str, nn.Layer] = {}
        self._model = build(trial, made)
        self._norms = {name: m for name, m in made.items() if isinstance(m, BatchNorm)}
        found = {name: parameter_of(made, name) for name in weights}
        self._parameters = {name: parameter for name, (parameter, _) in found.items()}
        self._transposed = {name for name, (_, transposed) in found.items() if transposed}
        for name, values in self._native(weights).items():
            self._parameters[name].set_value(values)
        self._optimizer = _optimizer(trial, self._parameters)
        self._rate = trial.optimizer["learning_rate"]
        self._schedule = trial.optimizer.get("schedule")
        self._slots = SLOTS[trial.optimizer["name"]]
        self._ema_decay = trial.ema_decay
        self._averages: dict[str, paddle.Tensor] = {}
        if self._ema_decay is not None:
            self._averages = {n: p.detach().clone() for n, p in self._parameters.items()}
        # PaddlePaddle calls this function after each update of the parameters, and counts none.
        self._steps = 0
        self._optimizer._finish_update = self._count
        self._loss = LOSSES[trial.loss](**_loss_options(trial))
        self._micro_batches = trial.accumulate
        # The gradient of the batch's mean loss for that of a micro-batch; None: the batch is whole.
        self._share: paddle.Tensor | None = None
        if trial.accumulate > 1:
            self._share = paddle.to_tensor(1 / trial.accumulate, trial.dtype)
        if trial.variant == "static":
            self._model = paddle.jit.to_static(self._model, full_graph=True)

    def put(self, inputs: Any, labels: Any) -> tuple[paddle.Tensor, paddle.Tensor]:
        return paddle.to_tensor(inputs), paddle.to_tensor(labels)

    def train_step(self, batch: tuple[paddle.Tensor, paddle.Tensor]) -> paddle.Tensor:
        loss = self._backward(batch) if self._share is None else self._accumulate(batch)
        if self._schedule:
            share = schedules.share(self._schedule, float(self._steps), np)
            self._optimizer.set_lr(float(self._rate * share))
        self._optimizer.step()
        self._optimizer.clear_grad(set_to_zero=False)
        if self._ema_decay is not None:
            self._average(1 - self._ema_decay)
        return loss

    @paddle.no_grad()  # type: ignore[untyped-decorator]
    def _average(self, share: float) -> None:
        """Add the weights to their averages."""
        for name, average in self._averages.items():
            average.lerp_(self._parameters[name], share)

    def _backward(self, batch: tuple[paddle.Tensor, paddle.Tensor]) -> paddle.Tensor:
        """The mean loss of a batch, whose gradients are added to those of the parameters."""
        loss = self._loss(self._model(batch[0]), batch[1])
        loss.backward(self._share)
        return loss.detach()

    def _accumulate(self, batch: tuple[paddle.Tensor, paddle.Tensor]) -> paddle.Tensor:
        """The same, with the mean gradients of its micro-batches, one after the other."""
        micro_batches = zip(*(each.chunk(self._micro_batches) for each in batch))
        losses = [self._backward(each) for each in micro_batches]
        return paddle.add_n(losses) / self._micro_batches

    def synchronize(self) -> None:
        """On the CPU every step is done when it returns."""

    def read(self, loss: paddle.Tensor) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        own = {name: self._parameters[name].clone() for name in self._averages}
        self._model.eval()
        with paddle.no_grad():
            self._set(self._averages)
            logits: Array = self._model(paddle.to_tensor(inputs)).numpy()
            self._set(own)
        self._model.train()
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        moments = [each for norm in self._norms.values() for each in norm.moments().values()]
        before = [each.numpy() for each in moments]
        images, targets = self.put(inputs, labels)
        logits = self._model(images)
        self._loss(logits, targets).backward()
        gradients = self._canonical({n: p.grad.numpy() for n, p in self._parameters.items()})
        self._optimizer.clear_grad(set_to_zero=False)
        for each, values in zip(moments, before):
            each.set_value(values)
        return logits.numpy(), gradients

    def weights(self) -> Weights:
        return self._canonical({name: p.numpy() for name, p in self._parameters.items()})

    def statistics(self) -> Weights:
        return {
            f"{name}.{moment}": values.numpy()
            for name, norm in self._norms.items()
            for moment, values in norm.moments().items()
        }

    def optimizer_state(self) -> dict[str, Weights]:
        accumulators, named = self._optimizer._accumulators, self._parameters.items()
        found = {
            slot: self._canonical({n: accumulators[key][p.name].numpy() for n, p in named})
            for slot, key in self._slots.items()
        }
        if self._averages:
            found[AVERAGE] = self._canonical({n: a.numpy() for n, a in self._averages.items()})
        return found

    def step_count(self) -> int:
        return self._steps

    def restore(self, state: State) -> None:
        raise NotImplementedError("PaddlePaddle is not a reference framework")

    def _set(self, values: dict[str, paddle.Tensor]) -> None:
        """Set parameters to tensors of PaddlePaddle."""
        for name, each in values.items():
            self._parameters[name].set_value(each)

    def _count(self, *arguments: Any) -> None:
        self._steps += 1

    def _native(self, canonical: Weights) -> Weights:
        """Values for the parameters, in PaddlePaddle's layout: dense weights are (in, out)."""
        return {n: v.T if n in self._transposed else v for n, v in canonical.items()}

    # A transposition is its own inverse.
    _canonical = _native


def _loss_options(trial: Trial) -> dict[str, Any]:
    if trial.class_weights:
        return {"weight": paddle.to_tensor(trial.class_weights, trial.dtype)}
    return {"label_smoothing": trial.label_smoothing} if trial.label_smoothing else {}


def _optimizer(trial: Trial, named: Mapping[str, Any]) -> paddle.optimizer.Optimizer:
    """PaddlePaddle's own optimizers; all of them compute by our definitions."""
    options = trial.optimizer
    name, rate = options["name"], options["learning_rate"]
    own = {"learning_rate": rate, "parameters": list(named.values())}
    if (largest := options.get("clip_norm")) is not None:
        own["grad_clip"] = nn.ClipGradByGlobalNorm(largest)
    if name == "sgd":
        return paddle.optimizer.SGD(**own)
    if name == "momentum":
        nesterov = options.get("nesterov", False)
        return paddle.optimizer.Momentum(momentum=options["momentum"], use_nesterov=nesterov, **own)
    if name in ("adam", "adamw", "lamb"):
        numbers = {key: options[key] for key in ("beta1", "beta2", "epsilon")}
        if name == "adam":
            return paddle.optimizer.Adam(**numbers, **own)
        decay, exempt = options["weight_decay"], {named[each].name for each in trial.exempt}
        if name == "lamb":
            return Lamb(exempt, lamb_weight_decay=decay, **numbers, **own)
        own["weight_decay"] = decay
        if exempt:
            own["apply_decay_param_fun"] = lambda of_paddle: of_paddle not in exempt
        return paddle.optimizer.AdamW(**numbers, **own)
    if name == "rmsprop":
        decay, epsilon = options["decay"], options["epsilon"]
        return paddle.optimizer.RMSProp(rho=decay, epsilon=epsilon, **own)
    raise NotImplementedError(f"PaddlePaddle module has no optimizer {name!r}")


class Lamb(paddle.optimizer.Lamb):
    """PaddlePaddle's LAMB, in which parameters with these names take the step of Adam.

    Its own option would give the trust ratio 1 to all parameters where the decay is 0.
    """

    def __init__(self, exempt: set[str], **options: Any) -> None:
        super().__init__(exclude_from_weight_decay_fn=lambda each: each.name in exempt, **options)
        self._exempt = exempt

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> None:
        self.always_adapt = param_and_grad[0].name not in self._exempt
        super()._append_optimize_op(block, param_and_grad)
