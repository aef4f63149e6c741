"""JAX: a Flax NNX model, split once, trained by one jitted step with Optax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from jax import numpy as jnp

from ..layouts import to_canonical, to_channels_last
from ..protocol import Array, Trial, Weights

LAYOUT = "NHWC"

Params = dict[str, dict[str, Any]]  # layer -> "kernel" or "bias" -> array


def version() -> str:
    return str(jax.__version__)


def device(trial: Trial) -> dict[str, Any]:
    # XLA takes as many threads as it finds CPUs, and does not tell: null.
    return {"name": trial.device, "threads": None, "kind": jax.devices()[0].device_kind}


class Model(nnx.Module):
    def __init__(self, trial: Trial) -> None:
        self.names = tuple(layer["name"] for layer in trial.layers)
        for layer in trial.layers:
            setattr(self, layer["name"], _lower(layer, trial.precision))

    def __call__(self, images: Any) -> Any:
        values = images
        for name in self.names:
            values = getattr(self, name)(values)
        return values


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        jax.config.update("jax_enable_x64", trial.precision == "float64")
        if trial.device == "cpu":
            jax.config.update("jax_platforms", "cpu")  # even where it sees a GPU
        else:
            jax.devices("cuda")  # raises where there is none; where there is one it computes there
            jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
        self._trial = trial
        # Shapes only: the initial weights come from the file, none need be drawn. The object graph
        # is walked here, once: nnx.jit would walk it in Python at every step.
        model = nnx.eval_shape(lambda: Model(trial))
        self._graph, self._template = nnx.split(model, nnx.Param)
        self._params = self._load(to_channels_last(trial, weights))
        self._optimizer = _optimizer(trial)
        self._state = self._optimizer.init(self._params)
        # Donation saves memory on an accelerator; on the CPU it only delays the dispatch (1 %).
        donated = () if trial.device == "cpu" else (0, 1)
        self._update = jax.jit(self._step, donate_argnums=donated)
        self._forward = jax.jit(self._apply)
        self._gradients = jax.jit(jax.grad(self._loss))

    def train_step(self, images: Array, labels: Array) -> Any:
        self._params, self._state, loss = self._update(self._params, self._state, images, labels)
        return loss

    def synchronize(self) -> None:
        jax.block_until_ready(self._params)

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, images: Array) -> Array:
        return np.asarray(self._forward(self._params, images))

    def gradients(self, images: Array, labels: Array) -> Weights:
        return self._canonical(self._gradients(self._params, images, labels))

    def weights(self) -> Weights:
        return self._canonical(self._params)

    def _load(self, weights: Weights) -> Params:
        params: Params = {}
        for name, values in weights.items():
            layer, role = name.split(".")
            role = "kernel" if role == "weight" else role
            params.setdefault(layer, {})[role] = jnp.array(values, self._trial.precision)
        return params

    def _canonical(self, params: Params) -> Weights:
        named = {
            f"{layer}.{'weight' if role == 'kernel' else role}": np.array(values)
            for layer, roles in params.items()
            for role, values in roles.items()
        }
        return to_canonical(self._trial, named)

    def _apply(self, params: Params, images: Any) -> Any:
        state = jax.tree.map(lambda leaf: leaf, self._template)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(self._graph, state)(images)

    def _loss(self, params: Params, images: Any, labels: Any) -> Any:
        logits = self._apply(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def _step(self, params: Params, state: Any, images: Any, labels: Any) -> Any:
        loss, gradients = jax.value_and_grad(self._loss)(params, images, labels)
        updates, state = self._optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss


def _lower(layer: dict[str, Any], precision: str) -> Callable[[Any], Any]:
    kind = layer["kind"]
    dtypes = {"dtype": precision, "param_dtype": precision, "rngs": nnx.Rngs(0)}
    if kind == "conv2d":
        return nnx.Conv(
            layer["in_channels"],
            layer["out_channels"],
            tuple(layer["kernel"]),
            tuple(layer["stride"]),
            padding=_padding(layer["padding"]),
            use_bias=layer["bias"],
            **dtypes,
        )
    if kind == "max_pool2d":
        return partial(
            nnx.max_pool,
            window_shape=tuple(layer["kernel"]),
            strides=tuple(layer["stride"]),
            padding=_padding(layer["padding"]),
        )
    if kind == "flatten":
        return lambda x: x.reshape((x.shape[0], -1))
    if kind == "dense":
        features = layer["in_features"], layer["out_features"]
        return nnx.Linear(*features, use_bias=layer["bias"], **dtypes)
    if kind == "relu":
        return nnx.relu
    raise NotImplementedError(f"JAX module has no layer {kind!r}")


def _padding(padding: list[int]) -> list[tuple[int, int]]:
    """Explicit numbers, never SAME, which pads unevenly with stride 2."""
    return [(each, each) for each in padding]


def _optimizer(trial: Trial) -> optax.GradientTransformation:
    optimizer = trial.optimizer
    if optimizer["name"] == "sgd":
        return optax.sgd(optimizer["learning_rate"])
    raise NotImplementedError(f"JAX module has no optimizer {optimizer['name']!r}")
