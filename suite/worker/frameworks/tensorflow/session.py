"""TensorFlow without Keras: tf.function with oneDNN, also compiled by XLA, or a loop of steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ... import schedules
from ...attention import masks_needed
from ...layouts import to_canonical, to_channels_last
from ...protocol import AVERAGE, STEPS_PER_CALL, Array, State, Trial, Weights
from . import device as tensorflow_device
from . import distributed
from .attention import key_masks
from .layers import Layer, Pass, rounded, series, to_bfloat16
from .products import Cast, Variables

LAYOUT = "NHWC"


def huber(targets: Any, outputs: Any) -> Any:
    """Huber's loss with the threshold 1, of each output."""
    errors = tf.abs(outputs - targets)
    return tf.where(errors <= 1, tf.square(errors) / 2, errors - 0.5)


# Of labels and logits.
LOSSES = {
    "cross_entropy": tf.nn.sparse_softmax_cross_entropy_with_logits,
    "mean_squared_error": tf.math.squared_difference,
    "huber": huber,
    "binary_cross_entropy": tf.nn.sigmoid_cross_entropy_with_logits,
}


def version() -> str:
    return str(tf.__version__)


device = tensorflow_device.describe
memory = tensorflow_device.memory


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        tensorflow_device.prepare(trial)
        self._trial = trial
        self._strategy = distributed.strategy(trial) if trial.world_size > 1 else None
        self._variables = {
            name: tf.Variable(values, dtype=trial.dtype, name=name)
            for name, values in to_channels_last(trial, weights).items()
        }
        self._statistics = {each["name"]: _statistic(each, trial) for each in trial.statistics}
        known = {**self._variables, **self._statistics}
        self._model = lowered(trial, known)
        self._smallest = min(self._variables.values(), key=lambda each: each.shape.num_elements())
        self._optimizer = Optimizer(trial, self._variables)
        compiled = tf.function(jit_compile=trial.variant == "xla", reduce_retracing=False)
        self._loops = trial.variant == "steps"
        self.steps_per_call = STEPS_PER_CALL if self._loops else 1
        self._train_step = compiled(self._on_ranks(self._steps if self._loops else self._step))
        averages = self._optimizer.averages
        evaluated = lowered(trial, {**averages, **self._statistics}) if averages else self._model
        self._logits = compiled(lambda inputs: evaluated(inputs, Pass(training=False)))
        self._gradients = compiled(
            self._on_ranks(lambda x, y: self._backward(x, y, Pass(training=True))[1:])
        )

    def put(self, inputs: Any, labels: Any) -> tuple[Any, Any]:
        return self._tensor(inputs), self._tensor(labels)

    def _tensor(self, values: Any) -> Any:
        """A batch's values on the device. TensorFlow keeps int32, unlike int64, in host memory."""
        on_gpu = self._trial.device != "cpu"
        if on_gpu and isinstance(values, np.ndarray) and values.dtype == np.int32:
            values = values.astype(np.int64)
        return tf.constant(values)

    def train_step(self, batch: tuple[Any, Any]) -> Any:
        if self._loops:
            batch = batch[0][tf.newaxis], batch[1][tf.newaxis]
        return self._train_step(*batch)

    def train_steps(self, batches: tuple[Any, Any]) -> Any:
        return self._train_step(*batches)

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns.

        The function of TensorFlow would also wait for the devices of other ranks, which it cannot.
        """
        if self._strategy:
            self._smallest.numpy()
        else:
            tf.test.experimental.sync_devices()

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        logits: Array = self._logits(tf.constant(inputs)).numpy()
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        logits, gradients = self._gradients(*self.put(inputs, labels))
        named = {name: g.numpy() for name, g in zip(self._variables, gradients)}
        return logits.numpy(), to_canonical(self._trial, named)

    def weights(self) -> Weights:
        return to_canonical(self._trial, {name: v.numpy() for name, v in self._variables.items()})

    def statistics(self) -> Weights:
        return {name: variable.numpy() for name, variable in self._statistics.items()}

    def optimizer_state(self) -> dict[str, Weights]:
        return {
            name: to_canonical(self._trial, dict(zip(self._variables, values)))
            for name, values in self._optimizer.state().items()
        }

    def step_count(self) -> int:
        return int(self._optimizer.steps)

    def restore(self, state: State) -> None:
        raise NotImplementedError("TensorFlow is not a reference framework")

    def exchange(self, values: Array) -> Callable[[], None]:
        ours = tf.constant(values)
        add = tf.function(self._on_ranks(lambda: distributed.mean([ours])))

        def exchange() -> None:
            add()
            self.synchronize()

        return exchange

    def _backward(self, inputs: Any, labels: Any, through: Pass) -> tuple[Any, Any, list[Any]]:
        with tf.GradientTape() as tape:
            logits = self._model(inputs, through)
            loss = tf.reduce_mean(self._losses(labels, logits))
        gradients = tape.gradient(loss, list(self._variables.values()))
        # That of an embedding is a tf.IndexedSlices.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return loss, logits, distributed.mean(gradients) if self._strategy else gradients

    def _losses(self, labels: Any, logits: Any) -> Any:
        """The losses of the samples, or of their labels."""
        smoothing, weights = self._trial.label_smoothing, self._trial.class_weights
        if not smoothing:
            losses = LOSSES[self._trial.loss](labels, logits)
            return self._weighted(losses, labels, weights) if weights else losses
        classes = logits.shape[-1]
        rest = smoothing / classes
        targets = tf.one_hot(labels, classes, 1 - smoothing + rest, rest, dtype=logits.dtype)
        return tf.nn.softmax_cross_entropy_with_logits(targets, logits)

    def _weighted(self, losses: Any, labels: Any, of_classes: list[float]) -> Any:
        """Losses whose mean is weighted by the classes of the labels."""
        weights = tf.gather(tf.constant(of_classes, losses.dtype), labels)
        return losses * weights / tf.reduce_mean(weights)

    def _on_ranks(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function in the context in which the ranks can exchange values."""
        strategy = self._strategy
        return (lambda *batch: strategy.run(function, batch)) if strategy else function

    def _step(self, inputs: Any, labels: Any) -> Any:
        if self._trial.accumulate > 1:
            loss, gradients = self._accumulate(inputs, labels)
            self._optimizer.apply(gradients)
            return loss
        through = Pass(training=True)
        loss, _, gradients = self._backward(inputs, labels, through)
        self._optimizer.apply(gradients)
        through.update()
        return loss

    def _accumulate(self, inputs: Any, labels: Any) -> tuple[Any, list[Any]]:
        """The mean loss of a batch, and the mean gradients of its micro-batches.

        These follow one after the other, so that only one needs memory for its layers' results.
        """
        parts = self._trial.accumulate
        inputs, labels = (
            tf.reshape(each, [parts, -1, *each.shape[1:]]) for each in (inputs, labels)
        )

        def add(number: Any, loss: Any, *totals: Any) -> tuple[Any, ...]:
            through = Pass(training=True)
            own, _, gradients = self._backward(inputs[number], labels[number], through)
            through.update()
            return number + 1, loss + own, *map(tf.add, totals, gradients)

        zeros = [tf.zeros_like(each) for each in self._variables.values()]
        start = tf.constant(0), tf.zeros([], self._trial.dtype), *zeros
        _, loss, *totals = tf.while_loop(
            lambda number, *_: number < parts, add, start, parallel_iterations=1
        )
        return loss / parts, [each / parts for each in totals]

    def _steps(self, inputs: Any, labels: Any) -> Any:
        """One step on each batch of a stack; the loss is that of the last."""

        def step(number: Any, loss: Any) -> tuple[Any, Any]:
            return number + 1, self._step(inputs[number], labels[number])

        steps = len(labels)
        start = tf.constant(0), tf.zeros([], self._trial.dtype)
        return tf.while_loop(lambda number, loss: number < steps, step, start)[1]


def lowered(trial: Trial, variables: Variables) -> Layer:
    """The trial's model, from inputs to logits; `variables` are its parameters and statistics."""
    # On a CPU, TensorFlow's products and sums of bfloat16 accumulate in bfloat16.
    cast = (rounded if trial.device == "cpu" else to_bfloat16) if trial.mixed else None
    model = series(trial.layers, variables, trial.slice_size if trial.own_slices else None, cast)
    if cast:
        model = _mixed(model, cast)
    padding_id, causal = masks_needed(trial.leaves())
    return model if padding_id is None else _padded(model, padding_id, causal)


def _padded(model: Layer, padding_id: int, causal: list[bool]) -> Layer:
    """The model with the masks of its batch."""

    def run(tokens: Any, through: Pass) -> Any:
        through.masks = key_masks(tokens, padding_id, causal)
        return model(tokens, through)

    return run


def _mixed(model: Layer, cast: Cast) -> Layer:
    """The model with its input cast, and its logits in float32."""

    def run(inputs: Any, through: Pass) -> Any:
        values = cast(inputs) if inputs.dtype.is_floating else inputs  # tokens stay exact
        return tf.cast(model(values, through), tf.float32)

    return run


def _statistic(named: dict[str, Any], trial: Trial) -> Any:
    initial = tf.ones if named["name"].endswith(".variance") else tf.zeros
    return tf.Variable(initial(named["shape"], trial.dtype), trainable=False)


# The protocol's names for the slots.
SLOTS = {"accum": "velocity", "m": "first_moment", "v": "second_moment", "ms": "second_moment"}
Kernel = tuple[Any, tuple[str, ...], dict[str, str]]
ADAM: Kernel = (
    tf.raw_ops.ResourceApplyAdam,
    ("m", "v"),
    {"lr": "learning_rate", "beta1": "beta1", "beta2": "beta2"},
)
# The fused kernels of TensorFlow's own optimizers, with their slots and their numbers.
KERNELS: dict[str, Kernel] = {
    "sgd": (tf.raw_ops.ResourceApplyGradientDescent, (), {"alpha": "learning_rate"}),
    "momentum": (
        tf.raw_ops.ResourceApplyMomentum,
        ("accum",),
        {"lr": "learning_rate", "momentum": "momentum"},
    ),
    "adam": ADAM,
    "adamw": ADAM,
    "lamb": ADAM,
    "rmsprop": (
        tf.raw_ops.ResourceApplyRMSProp,
        ("ms", "mom"),
        {"lr": "learning_rate", "rho": "decay", "epsilon": "epsilon"},
    ),
}


class Optimizer:
    """An optimizer made from a fused kernel."""

    def __init__(self, trial: Trial, variables: Variables) -> None:
        options, dtype = trial.optimizer, trial.dtype
        self._options = options
        self._name = options["name"]
        if self._name not in KERNELS:
            raise NotImplementedError(f"TensorFlow module has no optimizer {self._name!r}")
        self._kernel, slots, numbers = KERNELS[self._name]
        self._variables = list(variables.values())
        self._ema_share = 1 - (trial.ema_decay or 0.0)  # of the weights, in their averages
        averaged = {} if trial.ema_decay is None else variables
        self.averages = {n: tf.Variable(tf.identity(each)) for n, each in averaged.items()}
        exempt = trial.exempt
        self._decays = [name not in exempt for name in variables]
        self._slots = [{s: tf.Variable(tf.zeros_like(v)) for s in slots} for v in self._variables]
        adapting = set(variables) - exempt if self._name == "lamb" else set()
        self._updates = {
            each.ref(): tf.Variable(tf.zeros_like(each))
            for name, each in variables.items()
            if name in adapting
        }
        self._numbers = {
            key: tf.constant(options[number], dtype) for key, number in numbers.items()
        }
        self._gradient = "delta" if self._name == "sgd" else "grad"
        self._clip_norm = options.get("clip_norm")
        nesterov = {"use_nesterov": True} if options.get("nesterov") else {}
        self._kernel = partial(self._kernel, **nesterov)
        # Counted in the graph, by the function that updates the variables.
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        if self._name == "rmsprop":
            self._numbers["momentum"] = tf.constant(0, dtype)
        self._is_adam = self._name in ("adam", "adamw", "lamb")
        if self._is_adam:
            self._epsilon = tf.constant(options["epsilon"], dtype)
            # beta to the power of the number of the step
            self._powers = {key: tf.Variable(self._numbers[key]) for key in ("beta1", "beta2")}

    def state(self) -> dict[str, list[Array]]:
        """The slots by the protocol's names; each has a value for each variable, in their order."""
        names = [name for name in KERNELS[self._name][1] if name in SLOTS]
        found = {SLOTS[name]: [each[name].numpy() for each in self._slots] for name in names}
        if self.averages:
            found[AVERAGE] = [each.numpy() for each in self.averages.values()]
        return found

    def apply(self, gradients: list[Any]) -> None:
        """Do one step."""
        self.steps.assign_add(1)
        if self._clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        numbers = {**self._numbers, **(self._adam_numbers() if self._is_adam else {})}
        rate = "alpha" if self._name == "sgd" else "lr"
        if schedule := self._options.get("schedule"):
            before = tf.cast(self.steps - 1, numbers[rate].dtype)
            numbers[rate] *= schedules.share(schedule, before, tf)
        kept = 1 - numbers[rate] * self._options.get("weight_decay", 0.0)
        rows = zip(self._variables, self._decays, self._slots, gradients)
        for variable, decays, slots, gradient in rows:
            if self._name == "adamw" and decays:
                variable.assign(variable * kept)
            handles = {name: slot.handle for name, slot in slots.items()}
            given = {**handles, **numbers, self._gradient: gradient}
            if self._name == "lamb" and decays:
                self._adapt(variable, given)
            else:
                self._kernel(var=variable.handle, **given)
        if self._is_adam:
            for key, power in self._powers.items():
                power.assign(power * self._numbers[key])
        for variable, average in zip(self._variables, self.averages.values()):
            average.assign_sub(self._ema_share * (average - variable))

    def _adapt(self, variable: Any, given: dict[str, Any]) -> None:
        """Do LAMB's step for one variable; `given` is what the kernel of Adam takes.

        The kernel subtracts Adam's step, at the learning rate 1, from the negative of the decay.
        """
        update = self._updates[variable.ref()]
        update.assign(-self._options["weight_decay"] * variable)
        self._kernel(var=update.handle, **given | {"lr": tf.ones([], variable.dtype)})
        weights, updates = (tf.sqrt(2 * tf.nn.l2_loss(each)) for each in (variable, update))
        is_zero = tf.logical_or(weights == 0, updates == 0)
        ratio = tf.where(is_zero, tf.ones([], variable.dtype), weights / updates)
        variable.assign_add(given["lr"] * ratio * update)

    def _adam_numbers(self) -> dict[str, Any]:
        # The kernel adds epsilon before it corrects the bias of the second moment. With epsilon
        # scaled by the same correction, the result is Kingma and Ba's first algorithm.
        powers = {f"{key}_power": power for key, power in self._powers.items()}
        return {**powers, "epsilon": self._epsilon * tf.sqrt(1 - self._powers["beta2"])}
