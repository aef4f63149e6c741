"""Keras: a functional model, compiled and trained by the step that its `fit` runs, on any backend.

`layers.py` makes the model; `on_<variant>.py` holds the parts that depend on the backend.
"""

from __future__ import annotations

import importlib
import math
import os
from functools import partial
from typing import Any

import numpy as np

from ... import schedules
from ...layouts import to_canonical, to_channels_last
from ...protocol import AVERAGE, Array, State, Trial, Weights
from .. import VARIANT

BACKEND = os.environ.get(VARIANT, "tensorflow")
# Keras selects its backend when it is imported.
os.environ["KERAS_BACKEND"] = {"pytorch": "torch"}.get(BACKEND, BACKEND)

import keras  # noqa: E402
from keras import ops  # noqa: E402

from . import lamb, layers  # noqa: E402

backend = importlib.import_module(f".on_{BACKEND}", __package__)

# The attributes of the optimizers that hold the slots.
SLOTS = {
    "sgd": {},
    "momentum": {"velocity": "momentums"},
    "adam": {"first_moment": "_momentums", "second_moment": "_velocities"},
    "adamw": {"first_moment": "_momentums", "second_moment": "_velocities"},
    "lamb": {"first_moment": "_momentums", "second_moment": "_velocities"},
    "rmsprop": {"second_moment": "_velocities"},
}
LOSSES = {
    "cross_entropy": partial(keras.losses.SparseCategoricalCrossentropy, from_logits=True),
    "mean_squared_error": keras.losses.MeanSquaredError,
    "huber": keras.losses.Huber,
    "binary_cross_entropy": partial(keras.losses.BinaryCrossentropy, from_logits=True),
}
SETTINGS = ("cudnn_benchmark",)  # of PyTorch; the other backends search by themselves
# Keras's default on every backend. PyTorch then computes in channels-last memory, which is faster
# for some models: on two cores of a CPU it was for LeNet, but not for a deeper network.
LAYOUT = "NHWC"


def version() -> str:
    return str(keras.__version__)


device = backend.describe
memory = backend.memory


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        self._trial = trial
        self._model, found = build(trial)
        self._variables = {name: found[name] for name in weights}
        self._statistics = {each["name"]: found[each["name"]][0] for each in trial.statistics}
        self._shapes: dict[str, list[tuple[int, ...]]] = {}  # the 2-D ones of a parameter's parts
        self._load(to_channels_last(trial, weights))
        optimizer = _optimizer(trial, list(self._variables.values()))
        if trial.ema_decay is not None:
            optimizer._update_model_variables_moving_average = partial(_average, optimizer)
        if trial.exempt:
            optimizer.exclude_from_weight_decay(var_list=self._exempt(trial))
        # compile's other settings are Keras's defaults. jit_compile="auto" uses XLA with JAX, and
        # with TensorFlow on a GPU (unless there is an LSTM), and no compiler otherwise.
        self._model.compile(optimizer, _loss(trial))
        self._model._loss_tracker = StepLoss(name="loss")  # instead of a plain Mean
        self._trainer = _trainer(self._model)
        for variable, average in self._averages():
            # Of a copy: JAX deletes the arrays of a step's arguments after the step.
            average.assign(np.array(variable))
        self._probe: Any = None

    def put(self, inputs: Any, labels: Any) -> Any:
        if self._trial.accumulate == 1:
            return backend.put(inputs, labels)
        size = self._trial.micro_batch_size
        parts = (slice(first, first + size) for first in range(0, len(labels), size))
        return [backend.put(inputs[part], labels[part]) for part in parts]

    def train_step(self, batch: Any) -> Any:
        # The function that `fit` calls for each batch, without the callbacks and the progress bar
        # of `fit`, which would read the loss.
        if self._trial.accumulate == 1:
            return self._trainer.step(batch)["loss"]
        # To Keras each micro-batch is a batch. Its optimizer adds up their gradients.
        losses = [self._trainer.step(micro_batch)["loss"] for micro_batch in batch]
        return sum(losses) / len(losses)

    def synchronize(self) -> None:
        self._trainer.synchronize()

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        self._trainer.settle()
        own = [(variable, np.array(variable)) for variable, _ in self._averages()]
        for variable, average in self._averages():
            variable.assign(np.array(average))
        logits = np.asarray(self._model.predict_on_batch(inputs)).astype(self._trial.dtype)
        for variable, values in own:
            variable.assign(values)
        return logits

    def _averages(self) -> list[tuple[Any, Any]]:
        """Each variable with its average; nothing where the weights are not averaged."""
        optimizer = self._model.optimizer
        if not optimizer.use_ema:
            return []
        return list(zip(optimizer._trainable_variables, optimizer._model_variables_moving_average))

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        """Logits and gradients, by a training step that replaces each weight by its gradient.

        All variables are restored afterwards.
        """
        self._trainer.settle()
        before = [np.array(variable) for variable in self._model.variables]
        if self._probe is None:
            probe = Probe(self._model.inputs, self._model.outputs)
            probe.compile(IntoWeights(), self._model.loss)
            self._probe = _trainer(probe)
        logits = self._probe.step(backend.put(inputs, labels))["logits"]
        self._probe.settle()
        gradients = self._canonical()
        for variable, values in zip(self._model.variables, before):
            variable.assign(values)
        return ops.convert_to_numpy(ops.cast(logits, self._trial.dtype)), gradients

    def weights(self) -> Weights:
        return self._canonical()

    def statistics(self) -> Weights:
        self._trainer.settle()
        return {name: np.array(variable) for name, variable in self._statistics.items()}

    def optimizer_state(self) -> dict[str, Weights]:
        self._trainer.settle()
        options, optimizer = self._trial.optimizer, self._model.optimizer
        paths = [variable.path for variable in optimizer._trainable_variables]
        found = {}
        averaged = {AVERAGE: "_model_variables_moving_average"} if optimizer.use_ema else {}
        for slot, attribute in {**SLOTS[options["name"]], **averaged}.items():
            values = dict(zip(paths, getattr(optimizer, attribute)))
            found[slot] = self._canonical(values)
        # Keras's own velocity includes the factor -learning_rate; the protocol's does not.
        if "velocity" in found and not options.get("schedule"):
            factor = -options["learning_rate"]
            found["velocity"] = {n: v / factor for n, v in found["velocity"].items()}
        return found

    def step_count(self) -> int:
        self._trainer.settle()
        return int(np.array(self._model.optimizer.iterations))

    def restore(self, state: State) -> None:
        raise NotImplementedError("Keras is not a reference framework")

    def _exempt(self, trial: Trial) -> list[Any]:
        """The variables that weight decay leaves as they are."""
        parts = [part for name in trial.exempt for part in self._variables[name]]
        return [each.variable if isinstance(each, layers.Gates) else each for each in parts]

    def _load(self, weights: Weights) -> None:
        for name, values in weights.items():
            self._shapes[name] = assign(self._variables[name], values)

    def _canonical(self, slot: dict[str, Any] | None = None) -> Weights:
        """The parameters, or the values of an optimizer's slot by the path of each variable."""
        self._trainer.settle()
        named = {}
        for name, variables in self._variables.items():
            values = [_in_slot(each, slot) for each in variables] if slot else variables
            shaped = zip(values, self._shapes[name])
            parts = [np.array(value).reshape(shape) for value, shape in shaped]
            named[name] = np.concatenate(parts, axis=-1)
        return to_canonical(self._trial, named)


def build(trial: Trial) -> tuple[Any, dict[str, list[Any]]]:
    """The model on its device, and the variables of each parameter and statistic by its name."""
    backend.prepare(trial)
    keras.config.set_floatx(trial.dtype)
    keras.config.set_dtype_policy("mixed_bfloat16" if trial.mixed else trial.dtype)
    model, by_name = layers.make(trial)
    kinds = {layer["name"]: layer["kind"] for layer in trial.leaves()}
    names = [each["name"] for each in (*trial.parameters, *trial.statistics)]
    return model, {name: layers.variables(name, by_name, kinds) for name in names}


def assign(variables: list[Any], values: Array) -> list[tuple[int, ...]]:
    """Set the variables of one parameter to their parts of `values`; return the parts' shapes."""
    rows = math.prod(values.shape[:-1])
    widths = [math.prod(variable.shape) // rows for variable in variables]
    parts = np.split(values, np.cumsum(widths)[:-1], axis=-1)
    for variable, part in zip(variables, parts):
        variable.assign(part.reshape(variable.shape))
    return [part.shape for part in parts]


def _in_slot(variable: Any, slot: dict[str, Any]) -> Any:
    """The values of an optimizer's slot for a variable."""
    values = slot[variable.path]
    return variable.of(values) if isinstance(variable, layers.Gates) else values


def _trainer(model: Any) -> Any:
    """The trainer of a model, prepared as at the beginning of `fit`."""
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    return backend.Trainer(model)


class StepLoss(keras.metrics.Mean):
    """The loss of the last step; Keras's tracker has the mean since the beginning of the epoch."""

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self.reset_state()
        super().update_state(values, sample_weight)


class Probe(keras.Model):
    """A model of the same layers, whose training step returns the logits."""

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return {"logits": y_pred}


class IntoWeights(keras.optimizers.Optimizer):
    """Assigns each gradient to its weight."""

    def __init__(self) -> None:
        super().__init__(learning_rate=1.0)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign(variable, backend.whole(gradient))


def _loss(trial: Trial) -> Any:
    if trial.class_weights:
        return _weighted(trial.class_weights)
    if not trial.label_smoothing:
        return LOSSES[trial.loss]()
    classes = trial.architecture["classes"]

    def smoothed(labels: Any, logits: Any) -> Any:
        """Keras smooths only labels that are shares of the classes."""
        shares = ops.one_hot(ops.cast(labels, "int32"), classes, dtype=logits.dtype)
        options = {"from_logits": True, "label_smoothing": trial.label_smoothing}
        return keras.losses.categorical_crossentropy(shares, logits, **options)

    return smoothed


def _weighted(of_classes: list[float]) -> Any:
    """The cross-entropy with weights of classes.

    `class_weight` of `fit` divides the sum of the weighted losses by the number of labels, not by
    the sum of their weights.
    """

    def losses(labels: Any, logits: Any) -> Any:
        labels = ops.cast(labels, "int32")
        weights = ops.take(ops.convert_to_tensor(of_classes, logits.dtype), labels, axis=0)
        plain = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return plain * weights / ops.mean(weights)

    return losses


def _optimizer(trial: Trial, parameters: list[list[Any]]) -> Any:
    options = trial.optimizer
    name, rate = options["name"], options["learning_rate"]
    own = {"global_clipnorm": options.get("clip_norm")}
    if trial.accumulate > 1:
        own["gradient_accumulation_steps"] = trial.accumulate
    if trial.ema_decay is not None:
        own |= {"use_ema": True, "ema_momentum": trial.ema_decay}
    if schedule := options.get("schedule"):
        rate = Rates(rate, schedule, trial.accumulate)
    if name == "sgd":
        return keras.optimizers.SGD(rate, **own)
    if name == "momentum":
        numbers = {"momentum": options["momentum"], "nesterov": options.get("nesterov", False)}
        kind = _momentum() if schedule else keras.optimizers.SGD
        return kind(rate, **numbers, **own)
    if name in ("adam", "adamw", "lamb"):
        constants = rate, options["beta1"], options["beta2"], options["epsilon"]
        kind = lamb.of_parameters(parameters, backend.whole) if name == "lamb" else _adam()
        return kind(*constants, weight_decay=options.get("weight_decay"), **own)
    if name == "rmsprop":
        numbers = {"rho": options["decay"], "epsilon": options["epsilon"]}
        return keras.optimizers.RMSprop(rate, **numbers, **own)
    raise NotImplementedError(f"Keras module has no optimizer {name!r}")


def _average(optimizer: Any, variables: list[Any]) -> None:
    """Add the variables to their averages, after the last micro-batch of a step.

    Keras's own average is that of the variables after the first step, and counts the others once
    for each micro-batch.
    """
    share: Any = 1 - optimizer.ema_momentum
    if parts := optimizer.gradient_accumulation_steps:
        is_last = (optimizer._iterations + 1) % parts == 0
        share = ops.where(is_last, share, 0.0)
    for variable, average in zip(variables, optimizer._model_variables_moving_average):
        change = variable - average
        average.assign(average + ops.cast(share, change.dtype) * change)


class Rates(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of each step, in which Keras counts `accumulate` micro-batches."""

    def __init__(self, rate: float, schedule: dict[str, Any], accumulate: int) -> None:
        super().__init__()
        self._rate, self._schedule, self._accumulate = rate, schedule, accumulate

    def __call__(self, step: Any) -> Any:
        if self._accumulate > 1:
            step = ops.floor_divide(step, self._accumulate)
        before = ops.cast(step, keras.config.floatx())
        return self._rate * schedules.share(self._schedule, before, ops)

    def get_config(self) -> dict[str, Any]:
        numbers = {"rate": self._rate, "accumulate": self._accumulate}
        return {**numbers, "schedule": self._schedule}


def _momentum() -> Any:
    """A subclass of the SGD that Keras makes on this backend.

    Its velocity does not include the learning rate, which varies here.
    """

    class Momentum(type(keras.optimizers.SGD())):  # type: ignore[misc]
        momentum: float
        nesterov: bool
        momentums: list[Any]

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            velocity = self.momentums[self._get_variable_index(variable)]
            velocity.assign(self.momentum * velocity + gradient)
            step = gradient + self.momentum * velocity if self.nesterov else velocity
            variable.assign(variable - ops.cast(learning_rate, variable.dtype) * step)

        def _parallel_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
            """On PyTorch, where Keras updates all variables at once."""
            for gradient, variable in zip(grads, variables):
                self.update_step(gradient, variable, learning_rate)

    return Momentum


def _adam() -> Any:
    """A subclass of the Adam that Keras makes on this backend.

    On PyTorch that class updates all variables at once; keras.optimizers.Adam itself does not.
    """

    class Adam(type(keras.optimizers.Adam())):  # type: ignore[misc]
        """Kingma and Ba's first algorithm.

        Keras's Adam adds epsilon before it corrects the bias of the second moment. Here epsilon is
        scaled by the same correction in each step.
        """

        epsilon: Any

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            epsilon = self.epsilon
            step = ops.cast(self.iterations + 1, keras.config.floatx())
            self.epsilon = epsilon * ops.sqrt(1 - ops.power(self.beta_2, step))
            super().apply(grads, trainable_variables)
            self.epsilon = epsilon

    return Adam
