"""MXNet: Gluon, hybridized with static memory and shapes, oneDNN underneath."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.base import _LIB

from ... import schedules
from ...protocol import AVERAGE, SLOTS, Array, State, Trial, Weights
from . import distributed
from .lamb import Lamb
from .layers import gluon_name, model_of

T = TypeVar("T")

LAYOUT = "NCHW"
SMALLEST = float(np.finfo(np.float32).tiny)  # of a probability: its logarithm is finite
# The environment variables that determine MXNet's numeric policy.
POLICY = (
    "NVIDIA_TF32_OVERRIDE",
    "MXNET_CUDA_ALLOW_TENSOR_CORE",
    "MXNET_CUDNN_AUTOTUNE_DEFAULT",
    "MXNET_ENGINE_TYPE",
    "OMP_NUM_THREADS",
)


def version() -> str:
    return str(mx.__version__)


def device(trial: Trial) -> dict[str, Any]:
    # MXNet's library also gives access to the functions of its OpenMP.
    return {
        "name": trial.device,
        "threads": int(_LIB.omp_get_max_threads()),
        "kind": None,
        "tf32": trial.device != "cpu" and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0",
        "preallocates": False,
        "policy": {name: os.environ.get(name) for name in POLICY},
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The memory in use on the whole device at the end; MXNet reports no peak and no share."""
    if trial.device == "cpu":
        return {}
    free, total = mx.context.gpu_memory_info()
    return {"device_reserved_bytes": total - free}


class CrossEntropy(gluon.HybridBlock):
    """The softmax (labels, classes), and the mean cross-entropy.

    The gradient of the softmax is that of the cross-entropy, summed over samples; the mean, which
    a step reports, has none.

    SoftmaxOutput is one operator. gluon.loss.SoftmaxCrossEntropyLoss takes both from log_softmax,
    whose absolute error on a CPU is 3e-6, fifty times that of softmax: where losses are small, as
    in a trained model, its gradients have errors of 1e-4.
    """

    def __init__(self, positions: int, classes: int, smoothing: float) -> None:
        """Each sample has this many labels; its loss is their mean.

        MXNet divides its `smooth_alpha` among the other classes; ours is of all classes.
        """
        super().__init__()
        self._positions, self._smoothing = positions, smoothing
        self._others = smoothing * (classes - 1) / classes

    def hybrid_forward(self, F: Any, logits: Any, labels: Any) -> Any:  # noqa: N803
        if self._positions > 1:
            logits = F.reshape(logits, (-3, -2))  # (samples, positions, classes): joins the first
        labels = F.cast(F.reshape(labels, (-1,)), "float32")
        options = {"grad_scale": 1 / self._positions}
        if self._smoothing:
            options["smooth_alpha"] = self._others
        probabilities = F.SoftmaxOutput(logits, labels, **options)
        of_labels = F.pick(F.BlockGrad(probabilities), labels)
        loss = -F.mean(F.log(F.maximum(of_labels, SMALLEST)))
        if self._smoothing:
            of_all = -F.mean(F.log(F.maximum(F.BlockGrad(probabilities), SMALLEST)))
            loss = (1 - self._smoothing) * loss + self._smoothing * of_all
        return probabilities, loss


class WeightedCrossEntropy(gluon.HybridBlock):
    """As `CrossEntropy`, with the weights of classes; the first result has the loss's gradient.

    The gradient is written out: with its option `out_grad`, which would multiply the gradient of
    each label, SoftmaxOutput has wrong gradients in MXNet 1.9.1.
    """

    def __init__(self, positions: int, trial: Trial) -> None:
        super().__init__()
        self._positions = positions
        weights = np.asarray(trial.class_weights, np.float32)
        self._classes = len(weights)
        self.class_weights = self.params.get_constant("class_weights", weights)
        self.initialize(ctx=context(trial))

    def hybrid_forward(self, F: Any, logits: Any, labels: Any, class_weights: Any) -> Any:  # noqa: N803
        if self._positions > 1:
            logits = F.reshape(logits, (-3, -2))
        labels = F.cast(F.reshape(labels, (-1,)), "float32")
        weights = F.take(class_weights, labels)
        weights = F.broadcast_div(weights, F.mean(weights))
        probabilities = F.softmax(F.BlockGrad(logits))
        wrong = probabilities - F.one_hot(labels, self._classes)
        gradient = F.broadcast_mul(wrong, F.expand_dims(weights, 1)) / self._positions
        of_labels = F.log(F.maximum(F.pick(probabilities, labels), SMALLEST))
        return logits * gradient, -F.mean(weights * of_labels)


class OfNumbers(gluon.HybridBlock):
    """The losses of the samples (N,), and their mean."""

    def __init__(self, loss: str) -> None:
        super().__init__()
        self._loss = loss

    def hybrid_forward(self, F: Any, logits: Any, targets: Any) -> Any:  # noqa: N803
        if self._loss == "mean_squared_error":
            losses = F.square(logits - targets)
        elif self._loss == "huber":
            losses = F.smooth_l1(logits - targets, scalar=1.0)
        else:  # as gluon.loss.SigmoidBCELoss: its log(1 + exp(x)) does not overflow
            rest = F.Activation(-F.abs(logits), act_type="softrelu")
            losses = F.relu(logits) - logits * targets + rest
        losses = F.mean(losses, axis=1)
        return losses, F.mean(F.BlockGrad(losses))


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        self._trial = trial
        self._context = context(trial)
        self._model, found = build(trial)
        self._parameters = {name: found[name] for name in weights}
        self._statistics = {each["name"]: found[each["name"]] for each in trial.statistics}
        load(found, weights, trial)
        for name in trial.exempt:
            found[name].wd_mult = 0.0
        if trial.accumulate > 1:
            self._model.collect_params().setattr("grad_req", "add")
        self._model.hybridize(static_alloc=True, static_shape=True)
        self._loss: gluon.HybridBlock | None = None  # made where a sample's labels are counted
        # One device needs no key-value store; without it the update runs on the gradients' device.
        self._store = distributed.join(trial) if trial.world_size > 1 else None
        self._trainer = gluon.Trainer(
            self._model.collect_params(),
            _optimizer(trial),
            kvstore=self._store,
            update_on_kvstore=False,
        )
        if self._store:
            distributed.start(self._trainer)
        averaged = {} if trial.ema_decay is None else self._parameters
        self._averages = {name: each.data().copy() for name, each in averaged.items()}
        mx.random.seed(trial.seed + trial.rank)  # other dropout masks on each rank

    def put(self, inputs: Any, labels: Any) -> tuple[Any, Any]:
        return on_device(inputs, self._context), on_device(labels, self._context)

    def train_step(self, batch: tuple[Any, Any]) -> Any:
        accumulates = self._trial.accumulate > 1
        loss = self._accumulate(*batch) if accumulates else self._forward_backward(*batch)[0]
        largest = self._trial.optimizer.get("clip_norm")
        if largest is None:
            self._trainer.step(self._trial.batch_size)
        else:
            self._trainer.allreduce_grads()
            self._clip(largest)
            self._trainer.update(self._trial.batch_size)
        if self._trial.ema_decay is not None:
            self._average(1 - self._trial.ema_decay)
        return loss

    def _average(self, share: float) -> None:
        """Add the weights to their averages: a - share (a - w), which is a step of SGD."""
        for name, average in self._averages.items():
            change = average - self._parameters[name].data()
            mx.nd.sgd_update(average, change, lr=share, wd=0.0, out=average)

    def _accumulate(self, inputs: Any, targets: Any) -> Any:
        """The mean loss of a batch; the gradients are the sums over its micro-batches."""
        size, parts = self._trial.micro_batch_size, self._trial.accumulate
        self._model.collect_params().zero_grad()
        losses = []
        for first in range(0, size * parts, size):  # a slice shares the memory of the batch
            part = slice(first, first + size)
            losses.append(self._forward_backward(inputs[part], targets[part])[0])
        return mx.nd.add_n(*losses) / parts

    def _clip(self, largest: float) -> None:
        """Scale the gradients, which are sums over the batch, to this norm, where it is more.

        gluon.utils.clip_global_norm waits for the norm, and adds 1e-8 to it. Its sum of squares has
        an error of 1e-5 for a hundred thousand values.
        """
        gradients = [each.grad() for each in self._parameters.values()]
        flat = [each.reshape(-1) for each in gradients]
        norm = mx.nd.sqrt(mx.nd.add_n(*(mx.nd.dot(each, each) for each in flat)))
        factor = mx.nd.minimum(largest * self._trial.batch_size / norm, 1.0)
        for each in gradients:
            each *= factor

    def synchronize(self) -> None:
        mx.nd.waitall()

    def read(self, loss: Any) -> float:
        return float(loss.asscalar())

    def logits(self, inputs: Array) -> Array:
        own = {name: self._parameters[name].data().copy() for name in self._averages}
        self._set(self._averages)
        logits: Array = self._model(on_device(inputs, self._context)).asnumpy()
        self._set(own)
        return logits

    def _set(self, values: dict[str, Any]) -> None:
        """Set parameters to arrays of MXNet."""
        for name, each in values.items():
            self._parameters[name].set_data(each)

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        before = {name: each.data().copy() for name, each in self._statistics.items()}
        self._model.collect_params().zero_grad()  # to which those of micro-batches are added
        _, logits = self._forward_backward(*self.put(inputs, labels))
        if self._store:
            self._trainer.allreduce_grads()
        for name, each in self._statistics.items():
            each.set_data(before[name])
        # Gluon's backward sums over the batch; its trainer divides by the batch size.
        named, samples = self._parameters.items(), self._trial.micro_batch_size
        return logits.asnumpy(), {n: each.grad().asnumpy() / samples for n, each in named}

    def weights(self) -> Weights:
        named = self._parameters.items()
        return _in_thread(lambda: {name: each.data().asnumpy() for name, each in named})

    def statistics(self) -> Weights:
        return {name: each.data().asnumpy() for name, each in self._statistics.items()}

    def optimizer_state(self) -> dict[str, Weights]:
        states = self._trainer._updaters[0].states
        indices = {parameter.name: index for index, parameter in enumerate(self._trainer._params)}
        found: dict[str, Weights] = {}
        for name, parameter in self._parameters.items():
            state = states[indices[parameter.name]]
            parts = state if isinstance(state, tuple) else (state,)
            for slot, part in zip(SLOTS[self._trial.optimizer["name"]], parts):
                found.setdefault(slot, {})[name] = part.asnumpy()
        if self._averages:
            found[AVERAGE] = {name: each.asnumpy() for name, each in self._averages.items()}
        # MXNet's own velocity includes the factor -learning_rate; the protocol's does not.
        rate = self._trial.optimizer["learning_rate"]
        if not self._trial.optimizer.get("schedule"):
            for values in found.get("velocity", {}).values():
                values /= -rate
        return found

    def step_count(self) -> int:
        return int(self._trainer.optimizer.num_update)

    def restore(self, state: State) -> None:
        raise NotImplementedError("MXNet is not a reference framework")

    def exchange(self, values: Array) -> Callable[[], None]:
        store, parameters = self._trainer._kvstore, self._trainer._params
        ends = np.cumsum([math.prod(each.shape) for each in parameters])
        # As in training, each parameter has a key; these are the next ones after its own.
        ours = {
            len(parameters) + number: mx.nd.array(part, ctx=self._context)
            for number, part in enumerate(np.split(values, ends[:-1]))
        }
        for key, part in ours.items():
            store.init(key, part)
        distributed.wait(store)

        def add() -> None:
            for key, part in ours.items():
                store.push(key, part, priority=-key)
            for key, part in ours.items():
                store.pull(key, part, priority=-key)
            mx.nd.waitall()

        return add

    def _forward_backward(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        if self._loss is None:
            several = targets.size // len(targets)
            self._loss = _loss(self._trial, several)
            self._loss.hybridize(static_alloc=True, static_shape=True)
        with autograd.record():
            logits = self._model(inputs)
            head, loss = self._loss(logits, targets)
        head.backward()
        return loss, logits


def _loss(trial: Trial, positions: int) -> gluon.HybridBlock:
    """The loss of samples with so many labels each."""
    if trial.loss != "cross_entropy":
        return OfNumbers(trial.loss)
    if trial.class_weights:
        return WeightedCrossEntropy(positions, trial)
    return CrossEntropy(positions, trial.architecture["classes"], trial.label_smoothing)


def context(trial: Trial) -> Any:
    """MXNet's device of the trial."""
    return mx.cpu() if trial.device == "cpu" else mx.gpu()


def build(trial: Trial) -> tuple[gluon.HybridBlock, dict[str, Any]]:
    """The model on its device, and Gluon's parameters by the names of ours and of statistics."""
    model = model_of(trial)
    model.cast(trial.dtype)
    model.initialize(ctx=context(trial))
    known = model.collect_params()
    kinds = {layer["name"]: layer["kind"] for layer in trial.leaves()}
    names = [each["name"] for each in (*trial.parameters, *trial.statistics)]
    return model, {name: known[gluon_name(name, kinds)] for name in names}


def load(parameters: dict[str, Any], values: Weights, trial: Trial) -> None:
    """Set the parameters that `values` names."""

    def copy() -> None:
        for name, each in values.items():
            parameters[name].set_data(mx.nd.array(each, dtype=trial.dtype))

    _in_thread(copy)


def on_device(values: Any, place: Any) -> Any:
    """An array of numpy or of MXNet's loader as MXNet's array on the device `place`."""
    if isinstance(values, np.ndarray):
        values = mx.nd.from_numpy(values)  # shares the memory; nd.array would copy it
        if place.device_type == "cpu":
            return values  # already there; as_in_context takes microseconds to find that out
    return values.as_in_context(place)


def _in_thread(copy: Callable[[], T]) -> T:
    """Do a large copy in a temporary thread.

    The copy creates OpenMP threads for the thread that calls it. If the calling thread lived on,
    there would be more OpenMP threads than cores. libgomp would then let the computing threads
    sleep after each operator instead of spinning: a step of LeNet on two cores took 1.5 times as
    long.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(copy).result()


def _optimizer(trial: Trial) -> mx.optimizer.Optimizer:
    options = trial.optimizer
    name, rate = options["name"], options["learning_rate"]
    schedule = options.get("schedule")
    scheduler = {"lr_scheduler": Rates(schedule)} if schedule else {}
    if name == "sgd":
        return mx.optimizer.SGD(learning_rate=rate, **scheduler)
    if name == "momentum":
        numbers = {"momentum": options["momentum"], "learning_rate": rate, **scheduler}
        if scheduler:
            return Momentum(nesterov=options["nesterov"], **numbers)
        own = mx.optimizer.NAG if options.get("nesterov", False) else mx.optimizer.SGD
        return own(**numbers)
    if name in ("adam", "adamw"):
        # Rounded as in the kernel, so that the bias correction in Python uses the same numbers.
        betas = {key: float(np.float32(options[key])) for key in ("beta1", "beta2")}
        own = {"epsilon": options["epsilon"], "weight_decay": options.get("weight_decay", 0.0)}
        return Adam(learning_rate=rate, **betas, **own, **scheduler)
    if name == "lamb":
        own = {key: options[key] for key in ("beta1", "beta2", "epsilon", "weight_decay")}
        return Lamb(learning_rate=rate, **own, **scheduler)
    if name == "rmsprop":
        own = {"gamma1": options["decay"], "epsilon": options["epsilon"]}
        return mx.optimizer.RMSProp(rate, **own, **scheduler)
    raise NotImplementedError(f"MXNet module has no optimizer {name!r}")


class Rates(mx.lr_scheduler.LRScheduler):
    """The learning rate of each step; MXNet counts the steps from 1."""

    def __init__(self, schedule: dict[str, Any]) -> None:
        super().__init__()
        self._schedule = schedule

    def __call__(self, step: int) -> float:
        return float(self.base_lr * schedules.share(self._schedule, step - 1.0, np))


class Momentum(mx.optimizer.Optimizer):
    """Momentum whose velocity does not include the learning rate, which varies here."""

    def __init__(self, *, momentum: float, nesterov: bool, **numbers: Any) -> None:
        super().__init__(**numbers)
        self._momentum, self._nesterov = momentum, nesterov

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        gradient = grad * self.rescale_grad
        state *= self._momentum
        state += gradient
        step = gradient + self._momentum * state if self._nesterov else state
        weight -= self._get_lr(index) * step


class Adam(mx.optimizer.Adam):
    """Kingma and Ba's first algorithm, and AdamW where the weights decay.

    MXNet's Adam adds epsilon before it corrects the bias of the second moment. Here epsilon is
    scaled by the same correction in each step.
    """

    def __init__(self, *, epsilon: float, weight_decay: float, **numbers: Any) -> None:
        super().__init__(epsilon=epsilon, **numbers)
        self._epsilon = epsilon
        self._weight_decay = weight_decay

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        step = self._index_update_count.get(index, self.begin_num_update) + 1
        self.epsilon = self._epsilon * math.sqrt(1 - self.beta2**step)
        if decay := self._weight_decay * self.param_dict[index].wd_mult:
            rate = self.lr_scheduler(step) if self.lr_scheduler else self.lr
            weight *= 1 - rate * decay
        super().update(index, weight, grad, state)
