"""JAX: a Flax NNX model, split once, trained by one jitted step, or a scan of steps, with Optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax import numpy as jnp

from ... import schedules
from ...layouts import to_canonical, to_channels_last
from ...protocol import AVERAGE, STEPS_PER_CALL, Array, State, Trial, Weights
from . import device as jax_device
from . import rounding
from .distributed import Ranks, join, mean
from .layers import PREFIX, build, logits_of, paths

LAYOUT = "NHWC"

# The names of the slots in Optax's states.
SLOTS = {
    "sgd": {},
    "momentum": {"velocity": "trace"},
    "adam": {"first_moment": "mu", "second_moment": "nu"},
    "adamw": {"first_moment": "mu", "second_moment": "nu"},
    "lamb": {"first_moment": "mu", "second_moment": "nu"},
    "rmsprop": {"second_moment": "nu"},
}
LOSSES = {
    "cross_entropy": optax.softmax_cross_entropy_with_integer_labels,
    "mean_squared_error": optax.squared_error,
    "huber": optax.huber_loss,
    "binary_cross_entropy": optax.sigmoid_binary_cross_entropy,
}

Tree = dict[str, Any]  # nested: layer -> part of the layer -> ... -> array


def version() -> str:
    return str(jax.__version__)


device = jax_device.describe
memory = jax_device.memory


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        jax_device.prepare(trial)
        if trial.world_size > 1:
            join(trial)
        self._ranks = Ranks() if trial.world_size > 1 else None
        self._trial = trial
        self._paths = paths(trial)
        # The object graph is traversed once, here; nnx.jit would traverse it in every step.
        model = build(trial)
        self._graph, self._template, rest = nnx.split(model, nnx.Param, ...)
        self._rest_template = rest
        model.eval()
        self._inference_graph = nnx.split(model)[0]
        self._params = self._load(to_channels_last(trial, weights))
        # The running statistics, which Flax always makes in float32, and the random state.
        self._rest = jax.tree.map(self._in_precision, nnx.to_pure_dict(rest))
        exempt = trial.exempt
        decaying = {each["name"]: each["name"] not in exempt for each in trial.parameters}
        self._optimizer = _optimizer(trial, self._tree(decaying))
        averaged = {} if trial.ema_decay is None else {AVERAGE: AVERAGE}
        self._slots = {**SLOTS[trial.optimizer["name"]], **averaged}
        self._state = self._optimizer.init(self._params)
        self._place()
        # Donation saves memory on an accelerator; on the CPU it only delays the dispatch (1 %).
        donated = () if trial.device == "cpu" else (0, 1, 2)
        self._scans = trial.variant == "scan"
        self.steps_per_call = STEPS_PER_CALL if self._scans else 1
        update = self._steps if self._scans else self._step
        gradients = self._mean_gradients
        if self._ranks:
            update = self._ranks.update(update, stacked=self._scans)
            gradients = self._ranks.gradients(gradients)
        self._update = jax.jit(update, donate_argnums=donated)
        self._forward = jax.jit(lambda *values: self._apply(self._inference_graph, *values)[0])
        self._gradients = jax.jit(gradients)

    def put(self, inputs: Array, labels: Array) -> Any:
        if self._ranks:
            stacked = inputs.ndim > len(self._trial.architecture["input_shape"]) + 1
            return tuple(self._ranks.batch(each, stacked=stacked) for each in (inputs, labels))
        return jax.device_put((inputs, labels))

    def train_step(self, batch: Any) -> Any:
        if self._scans:
            batch = jax.tree.map(lambda each: each[None], batch)
        return self.train_steps(batch)

    def train_steps(self, batches: Any) -> Any:
        self._params, self._rest, self._state, loss = self._update(
            self._params, self._rest, self._state, *batches
        )
        return loss

    def synchronize(self) -> None:
        jax.block_until_ready(self._params)

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        averaged = AVERAGE in self._slots
        params = optax.tree.get(self._state, AVERAGE) if averaged else self._params
        values = params, self._rest
        if self._ranks:
            values = self._ranks.own(values)
        return np.asarray(self._forward(*values, inputs))

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        batch = self.put(inputs, labels)
        gradients, (logits, _) = self._gradients(self._params, self._rest, *batch)
        own = logits.addressable_data(0)  # the slice of this rank
        return np.asarray(own), self._canonical(gradients)

    def weights(self) -> Weights:
        return self._canonical(self._params)

    def statistics(self) -> Weights:
        found = {}
        for each in self._trial.statistics:
            layer, moment = self._paths[each["name"]]
            found[each["name"]] = np.array(self._rest[layer][moment])
        return found

    def optimizer_state(self) -> dict[str, Weights]:
        return {
            slot: self._canonical(optax.tree.get(self._state, name))
            for slot, name in self._slots.items()
        }

    def step_count(self) -> int:
        # A schedule counts the steps too.
        (_, count), *_ = optax.tree.get_all_with_path(self._state, "count")
        return int(count)

    def restore(self, state: State) -> None:
        self._params = self._load(to_channels_last(self._trial, state.weights))
        for name, values in state.statistics.items():
            layer, moment = self._paths[name]
            self._rest[layer][moment] = jnp.array(values, self._trial.dtype)
        slots = {
            name: self._load(to_channels_last(self._trial, state.optimizer[slot]))
            for slot, name in self._slots.items()
        }
        count = jnp.array(state.steps, jnp.int32)
        self._state = optax.tree.set(self._state, count=count, **slots)

    def _place(self) -> None:
        """Place everything that a step changes on the devices of all ranks."""
        if self._ranks:
            state = self._params, self._rest, self._state
            self._params, self._rest, self._state = self._ranks.replicated(state)

    def exchange(self, values: Array) -> Callable[[], None]:
        assert self._ranks
        return self._ranks.exchange(values)

    def _in_precision(self, values: Any) -> Any:
        is_float = jnp.issubdtype(values.dtype, jnp.floating)
        return values.astype(self._trial.dtype) if is_float else values

    def _load(self, weights: Weights) -> Tree:
        return self._tree({n: jnp.array(each, self._trial.dtype) for n, each in weights.items()})

    def _tree(self, named: dict[str, Any]) -> Tree:
        """Values of the parameters, where Flax has the parameters."""
        tree: Tree = {}
        for name, value in named.items():
            *path, last = self._paths[name]
            inner = tree
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = value
        return tree

    def _canonical(self, tree: Tree) -> Weights:
        named = {}
        for each in self._trial.parameters:
            values: Any = tree
            for part in self._paths[each["name"]]:
                values = values[part]
            named[each["name"]] = np.array(values)
        return to_canonical(self._trial, named)

    def _apply(self, graph: Any, params: Tree, rest: Tree, inputs: Any) -> tuple[Any, Tree]:
        """The logits, and the state after them without the parameters."""
        trial = self._trial
        if trial.simulated_bits:
            params = rounding.with_rounded_products(trial, params, prefix=PREFIX)
        states = []
        for template, tree in ((self._template, params), (self._rest_template, rest)):
            state = jax.tree.map(lambda leaf: leaf, template)
            nnx.replace_by_pure_dict(state, tree)
            states.append(state)
        model = nnx.merge(graph, *states)
        logits = logits_of(model, trial, inputs).astype(trial.dtype)
        return logits, nnx.to_pure_dict(nnx.split(model, nnx.Param, ...)[2])

    def _loss(self, params: Tree, rest: Tree, inputs: Any, labels: Any) -> Any:
        logits, rest = self._apply(self._graph, params, rest, inputs)
        if smoothing := self._trial.label_smoothing:
            classes = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
            targets = optax.smooth_labels(classes, smoothing)
            return optax.softmax_cross_entropy(logits, targets).mean(), (logits, rest)
        losses = LOSSES[self._trial.loss](logits, labels)
        if of_classes := self._trial.class_weights:
            weights = jnp.asarray(of_classes, losses.dtype)[labels]
            return jnp.average(losses, weights=weights), (logits, rest)
        return losses.mean(), (logits, rest)

    def _mean(self, gradients: Tree) -> Tree:
        """The mean over all ranks."""
        return mean(gradients, self._trial.device) if self._ranks else gradients

    def _mean_gradients(self, params: Tree, rest: Tree, inputs: Any, labels: Any) -> Any:
        gradients, results = jax.grad(self._loss, has_aux=True)(params, rest, inputs, labels)
        return self._mean(gradients), results

    def _backward(self, params: Tree, rest: Tree, inputs: Any, labels: Any) -> tuple[Any, Any, Any]:
        """The mean loss of a batch, the state after it, and the gradients of the parameters."""
        to_differentiate = jax.value_and_grad(self._loss, has_aux=True)
        (loss, (_, rest)), gradients = to_differentiate(params, rest, inputs, labels)
        return loss, rest, gradients

    def _accumulate(
        self, params: Tree, rest: Tree, inputs: Any, labels: Any
    ) -> tuple[Any, Any, Any]:
        """The same, with the mean gradients of the batch's micro-batches, one after the other."""
        parts = self._trial.accumulate

        def add(carry: Any, micro_batch: Any) -> Any:
            rest, total = carry
            loss, rest, gradients = self._backward(params, rest, *micro_batch)
            return (rest, jax.tree.map(jnp.add, total, gradients)), loss

        micro_batches = [each.reshape(parts, -1, *each.shape[1:]) for each in (inputs, labels)]
        start = rest, jax.tree.map(jnp.zeros_like, params)
        (rest, total), losses = lax.scan(add, start, micro_batches, unroll=self._unroll)
        return losses.mean(), rest, jax.tree.map(lambda each: each / parts, total)

    def _step(self, params: Tree, rest: Tree, state: Any, inputs: Any, labels: Any) -> Any:
        backward = self._accumulate if self._trial.accumulate > 1 else self._backward
        loss, rest, gradients = backward(params, rest, inputs, labels)
        gradients = self._mean(gradients)
        updates, state = self._optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), rest, state, loss

    @property
    def _unroll(self) -> bool:
        """Whether loops are unrolled.

        In a loop, XLA on a CPU computes convolutions without its library, many times slower.
        """
        return bool(self._trial.device == "cpu")

    def _steps(self, params: Tree, rest: Tree, state: Any, inputs: Any, labels: Any) -> Any:
        """One step on each batch of a stack; the loss is that of the last."""

        def step(carry: Any, batch: Any) -> Any:
            *carry, loss = self._step(*carry, *batch)
            return tuple(carry), loss

        start = params, rest, state
        carry, losses = lax.scan(step, start, (inputs, labels), unroll=self._unroll)
        return *carry, losses[-1]


def _optimizer(trial: Trial, decaying: Tree) -> optax.GradientTransformation:
    """`decaying` says of each parameter whether its weights decay."""
    largest, own = trial.optimizer.get("clip_norm"), _unclipped(trial, decaying)
    if largest is not None:
        own = optax.chain(optax.clip_by_global_norm(largest), own)
    return own if trial.ema_decay is None else optax.chain(own, _averaged(trial.ema_decay))


def _unclipped(trial: Trial, decaying: Tree) -> optax.GradientTransformation:
    options = trial.optimizer
    name, rate = options["name"], options["learning_rate"]
    if schedule := options.get("schedule"):
        rate = _scheduled(rate, schedule, trial.dtype)
    if name == "sgd":
        return optax.chain(optax.sgd(rate), _counted())
    if name == "momentum":
        numbers = {"momentum": options["momentum"], "nesterov": options.get("nesterov", False)}
        return optax.chain(optax.sgd(rate, **numbers), _counted())
    if name == "adam":  # which counts its own steps
        return optax.adam(rate, b1=options["beta1"], b2=options["beta2"], eps=options["epsilon"])
    if name == "adamw":
        betas = {"b1": options["beta1"], "b2": options["beta2"]}
        decay = options["weight_decay"]
        constants = {"eps": options["epsilon"], "weight_decay": decay, "mask": decaying}
        return optax.adamw(rate, **constants, **betas)
    if name == "lamb":  # as optax.lamb, but without ratios of the parameters that do not decay
        return optax.chain(
            optax.scale_by_adam(options["beta1"], options["beta2"], options["epsilon"]),
            optax.add_decayed_weights(options["weight_decay"], decaying),
            optax.masked(optax.scale_by_trust_ratio(), decaying),
            optax.scale_by_learning_rate(rate),
        )
    if name == "rmsprop":
        rmsprop = optax.rmsprop(
            rate, decay=options["decay"], eps=options["epsilon"], eps_in_sqrt=True
        )
        return optax.chain(rmsprop, _counted())
    raise NotImplementedError(f"JAX module has no optimizer {name!r}")


def _scheduled(rate: float, schedule: dict[str, Any], dtype: str) -> optax.Schedule:
    return lambda count: rate * schedules.share(schedule, count.astype(dtype), jnp)


class Averaged(NamedTuple):
    """The state of `_averaged`."""

    average: Any  # of the parameters


def _averaged(decay: float) -> optax.GradientTransformation:
    """A transformation that averages the updated parameters and does not change the updates."""

    def update(updates: Any, state: Averaged, params: Any) -> tuple[Any, Averaged]:
        after = optax.apply_updates(params, updates)
        # The factors of optax.incremental_update, d and 1 - d, are rounded: with d near 1 the
        # average drifts.
        share = 1 - decay
        average = jax.tree.map(lambda old, new: old + share * (new - old), state.average, after)
        return updates, Averaged(average)

    # A copy: the same buffer cannot be donated twice.
    return optax.GradientTransformation(lambda p: Averaged(jax.tree.map(jnp.copy, p)), update)


class Counted(NamedTuple):
    """The state of `_counted`."""

    count: Any


def _counted() -> optax.GradientTransformation:
    """A transformation that counts the updates and does not change them."""
    return optax.GradientTransformation(
        lambda params: Counted(jnp.zeros([], jnp.int32)),
        lambda updates, state, params=None: (updates, Counted(state.count + 1)),
    )
