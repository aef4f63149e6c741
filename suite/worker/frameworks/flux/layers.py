"""A trial's layers as an expression of Flux, whose arrays are read from numpy's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...protocol import Array, Trial, Weights


@dataclass
class Model:
    """The expression of a chain, and the path of each parameter in it, as Julia writes it."""

    code: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    kept: list[Array] = field(default_factory=list)  # memory that the expression refers to


def model_of(trial: Trial, weights: Weights) -> Model:
    """The model with its initial weights; NotImplementedError names a layer that it cannot have."""
    model = Model()
    parts = []
    for number, layer in enumerate(trial.layers, start=1):
        kind = layer["kind"]
        if kind not in LAYERS:
            raise NotImplementedError(f"Flux module has no layer {kind!r}")
        parts.append(LAYERS[kind](layer, model, weights))
        for role in ROLES.get(kind, ()):
            if f"{layer['name']}.{role}" in weights:
                model.paths[f"{layer['name']}.{role}"] = f"({number}, :{role})"
    model.code = f"Work.Flux.Chain({', '.join(parts)})"
    return model


def _array(model: Model, values: Array) -> str:
    """An expression for a copy of an array, whose axes are in the reverse order in Julia."""
    values = np.ascontiguousarray(values, np.float32)
    model.kept.append(values)
    shape = ", ".join(map(str, reversed(values.shape)))
    return f"copy(unsafe_wrap(Array, Ptr{{Float32}}({values.ctypes.data}), ({shape},)))"


def _bias(layer: dict[str, Any], model: Model, weights: Weights) -> str:
    return _array(model, weights[f"{layer['name']}.bias"]) if layer["bias"] else "false"


def _convolution(layer: dict[str, Any], model: Model, weights: Weights) -> str:
    weight = f"Work.flipped({_array(model, weights[layer['name'] + '.weight'])})"
    options = ", ".join(f"{name} = {_pair(layer[key])}" for name, key in WINDOW.items())
    groups = f", groups = {layer['groups']}" if layer["groups"] > 1 else ""
    return f"Work.Flux.Conv({weight}, {_bias(layer, model, weights)}; {options}{groups})"


def _dense(layer: dict[str, Any], model: Model, weights: Weights) -> str:
    weight = f"collect(transpose({_array(model, weights[layer['name'] + '.weight'])}))"
    return f"Work.Flux.Dense({weight}, {_bias(layer, model, weights)})"


def _max_pool(layer: dict[str, Any], model: Model, weights: Weights) -> str:
    window = ", ".join(_pair(layer[key]) for key in ("kernel", "stride", "padding"))
    return f"(x -> Work.max_pool(x, {window}))"


def _mean_pool(layer: dict[str, Any], model: Model, weights: Weights) -> str:
    return (
        f"Work.Flux.MeanPool({_pair(layer['kernel'])}; stride = {_pair(layer['stride'])},"
        f" pad = {_pair(layer['padding'])})"
    )


def _pair(values: list[int]) -> str:
    """(height, width) as Flux has it: (width, height)."""
    return f"({values[1]}, {values[0]})"


ROLES = {"conv2d": ("weight", "bias"), "dense": ("weight", "bias")}
WINDOW = {"stride": "stride", "pad": "padding", "dilation": "dilation"}
LAYERS: dict[str, Any] = {
    "conv2d": _convolution,
    "dense": _dense,
    "max_pool2d": _max_pool,
    "avg_pool2d": _mean_pool,
    "global_avg_pool2d": lambda *_: "Work.global_mean",
    "flatten": lambda *_: "Work.Flux.flatten",
    "relu": lambda *_: "(x -> Work.Flux.relu.(x))",
    "tanh": lambda *_: "(x -> tanh.(x))",
    "sigmoid": lambda *_: "(x -> Work.Flux.sigmoid.(x))",
    "dropout": lambda layer, *_: f"Work.Flux.Dropout({layer['rate']})",
}
