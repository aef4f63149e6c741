"""A .keras file as a graph of operations.

    python -m readers.in_keras REQUEST.json

The request has `source` (the file), `input` (channels, height, width of a sample, where the file's
shape is open, else null), `samples`, `changed`, `seed` and `folder`. The answer is that of
in_pytorch.py; the logits are those of Keras on TensorFlow in float64.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

# On JAX and PyTorch, Keras computes means and norms of float64 in float32.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
from keras.src.applications import convnext

from . import common
from .common import Layer, Refused
from .keras_layers import LAYERS, Value, activation_of, as_image, channels_first

CONFIG = "config.json"
LARGEST_RATIO = 100  # of a file's size to its compressed size: more is no model
# Layers of keras.applications that a file names without their module.
OWN = {each.__name__: each for each in (convnext.LayerScale, convnext.StochasticDepth)}
ENDINGS = ("softmax", "sigmoid")
PREPROCESSING = (keras.layers.Rescaling, keras.layers.Normalization)


def main(request: dict[str, Any]) -> None:
    folder = Path(request["folder"])
    model, notes = without_ends(load(Path(request["source"]), folder, request["input"]))
    graph = Converter(model)
    refusals = graph.convert()
    inputs = common.random_inputs(request, graph.shape)
    logits = computed(model, inputs)
    common.write_results(folder, "own", graph.weights, logits)
    if not refusals:
        samples = inputs[: request["changed"]]
        change(model, samples, request["seed"])
        other = Converter(model)
        other.convert()
        common.write_results(folder, "changed", other.weights, computed(model, samples))
    values = {
        "nodes": graph.nodes,
        "refusals": refusals,
        "notes": [*notes, *dict.fromkeys(graph.notes)],
        "ending": None,  # the logits are those before it
        "classes": int(logits.shape[-1]),
        "shape": graph.shape,
        "runtime": f"Keras {keras.__version__} on TensorFlow, float64",
    }
    common.write(folder, values, inputs)


def load(source: Path, folder: Path, shape: list[int] | None) -> Any:
    """The model in float64, with an open shape of its input set to `shape`.

    Raise FileRefused where the file has code, or is damaged.
    """
    with zipfile.ZipFile(source) as file:
        for each in file.infolist():
            if each.file_size > LARGEST_RATIO * max(each.compress_size, 2**20):
                raise common.FileRefused(
                    f"{each.filename} has {each.file_size:,} bytes uncompressed"
                )
        config = file.read(CONFIG).decode()
        _must_have_no_code(json.loads(config))
        if shape:
            config = _with_shape(config, shape)
        in_float64 = folder / "float64.keras"
        with zipfile.ZipFile(in_float64, "w") as changed:
            for each in file.infolist():
                content = file.read(each) if each.filename != CONFIG else _float64(config).encode()
                changed.writestr(each.filename, content)
    model = keras.saving.load_model(in_float64, compile=False, safe_mode=True, custom_objects=OWN)
    in_float64.unlink()
    return model


def _must_have_no_code(config: Any) -> None:
    """Raise FileRefused where a layer is a function or class of the file's author."""
    if isinstance(config, dict):
        name, registered = config.get("class_name"), config.get("registered_name")
        foreign = registered and not str(config.get("module")).startswith("keras")
        if name == "Lambda" or (foreign and name not in OWN):
            raise common.FileRefused(f"{registered or name}: code of the file's author is not run")
        for each in config.values():
            _must_have_no_code(each)
    elif isinstance(config, list):
        for each in config:
            _must_have_no_code(each)


def _with_shape(config: str, shape: list[int]) -> str:
    """The configuration with an input of `shape`: channels, height, width."""
    values = json.loads(config)
    layers = values["config"]["layers"]
    first = next((each for each in layers if each["class_name"] == "InputLayer"), None)
    if first is None:
        raise common.FileRefused("it has no input layer, whose shape could be set")
    key = "batch_shape" if "batch_shape" in first["config"] else "batch_input_shape"
    found, wanted = first["config"][key], [None, *shape[1:], shape[0]]
    fits = len(found) == len(wanted) and all(
        one in (None, other) for one, other in zip(found, wanted, strict=True)
    )
    if not fits:
        raise common.FileRefused(f"its input has the shape {found[1:]}, not {wanted[1:]}")
    first["config"][key] = wanted
    return json.dumps(values)


def _float64(config: str) -> str:
    """The configuration with all types of computation and of variables as float64."""
    for name in ("float32", "float16", "mixed_float16", "mixed_bfloat16", "bfloat16"):
        config = config.replace(f'"{name}"', '"float64"')
    return config


def without_ends(model: Any) -> tuple[Any, list[str]]:
    """The model between the layers that scale pixels and the loss's part, and notes about these."""
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise common.FileRefused(
            f"{len(model.inputs)} inputs and {len(model.outputs)} outputs, not one"
        )
    notes, inputs, outputs = [], model.inputs[0], model.outputs[0]
    if None in inputs.shape[1:]:
        raise common.FileRefused(
            f"the shape of its input is open: {inputs.shape[1:]}", hint="--input 3x224x224 sets it"
        )
    for layer in model.layers:
        if isinstance(layer, PREPROCESSING):
            inputs = layer.output
            notes.append(f"{layer.name} at the input is left out: data sets are normalized already")
        elif not isinstance(layer, keras.layers.InputLayer):
            break
    last = model.layers[-1]
    ending = "softmax" if isinstance(last, keras.layers.Softmax) else activation_of(last)
    if ending in ENDINGS and len(outputs.shape) == 2:
        notes.append(common.ENDING.format(ending))
        if isinstance(last, (keras.layers.Softmax, keras.layers.Activation)):
            outputs = last.input
        else:
            last.activation = keras.activations.linear
            outputs = last(last.input)
    return keras.Model(inputs, outputs), notes


def computed(model: Any, inputs: Any) -> Any:
    """The logits in inference, of images with channels first."""
    return np.asarray(model(_turned(model, inputs), training=False))


def _turned(model: Any, inputs: Any) -> Any:
    """The inputs in float64, images and signals with channels last."""
    turned = np.moveaxis(inputs, 1, -1) if inputs.ndim == 4 else inputs
    return turned.reshape(len(turned), *model.inputs[0].shape[1:]).astype(np.float64)


def change(model: Any, inputs: Any, seed: int) -> None:
    """As `change` in in_pytorch.py."""
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        # The fan-in is that of the form (out, in, ...); of one axis, nothing moves.
        values = np.moveaxis(np.asarray(variable), -1, 0)
        changed = np.moveaxis(values + common.noise(values, random), 0, -1)
        variable.assign(changed.astype(np.float32))
    norms = [each for each in _flat(model) if isinstance(each, keras.layers.BatchNormalization)]
    momenta = [each.momentum for each in norms]
    for each in norms:
        each.momentum = 0.0
    model(_turned(model, inputs), training=True)
    for each, momentum in zip(norms, momenta, strict=True):
        each.momentum = momentum
        for variable in (each.moving_mean, each.moving_variance):
            variable.assign(np.asarray(variable).astype(np.float32))


def _flat(model: Any) -> list[Any]:
    """The layers of a model and of those inside it."""
    found = []
    for layer in model.layers:
        found += _flat(layer) if isinstance(layer, keras.Model) else [layer]
    return found


class Converter:
    """The operations of a Keras model as nodes of a graph of layers, with channels first."""

    def __init__(self, model: Any) -> None:
        self._model = model
        shape = tuple(int(each) for each in model.inputs[0].shape[1:])
        self.shape = channels_first(as_image(shape))
        self.nodes: list[Layer] = [{"name": "input", "inputs": [], "layer": None}]
        self.weights: dict[str, Any] = {}
        self.notes: list[str] = []
        self._used: set[int] = set()  # layers with weights
        self._refusals: list[Layer] = []

    def convert(self) -> list[Layer]:
        """The operations that cannot be taken; the others are in `nodes`."""
        end = self._run(self._model, [Value("input")])
        end = self.flat(end)
        if self.nodes[-1]["name"] != end.name:
            self.nodes.append({"name": "end", "inputs": [end.name], "layer": None})
        return self._refusals

    def add(self, name: str, inputs: list[str], layer: Layer | None) -> str:
        """Add a node; return its unique name."""
        name = common.as_name(name, {each["name"] for each in self.nodes})
        self.nodes.append({"name": name, "inputs": inputs, "layer": layer})
        return name

    def keep(self, name: str, **weights: Any) -> None:
        """Keep the weights of a node by their roles."""
        for role, values in weights.items():
            if values is not None:
                self.weights[f"{name}.{role}"] = np.asarray(values, np.float64)

    def flat(self, value: Value) -> Value:
        """The value as features, where a layer of ours left height and width of size 1."""
        if value.form != "squeezed":
            return value
        return Value(self.add(f"{value.name}_flat", [value.name], {"kind": "flatten"}))

    def _run(self, model: Any, inputs: list[Value]) -> Value:
        model = getattr(model, "_functional", None) or model
        values = {id(tensor): value for tensor, value in zip(model.inputs, inputs, strict=True)}
        by_depth = model._nodes_by_depth
        for depth in sorted(by_depth, reverse=True):
            for node in by_depth[depth]:
                if node.is_input or any(id(each) not in values for each in node.input_tensors):
                    continue
                given = [values[id(each)] for each in node.input_tensors]
                values[id(node.outputs[0])] = self._operation(node, given)
        return values[id(model.outputs[0])]

    def _operation(self, node: Any, given: list[Value]) -> Value:
        layer = node.operation
        if isinstance(layer, keras.Model):
            return self._run(layer, given)
        try:
            make = LAYERS.get(type(layer).__name__)
            if make is None:
                raise Refused("no layer is this one")
            if getattr(layer, "weights", ()):
                if id(layer) in self._used:
                    raise Refused("it is used twice: shared weights have no layer")
                self._used.add(id(layer))
            before = tuple(int(each) for each in node.input_tensors[0].shape[1:])
            after = tuple(int(each) for each in node.outputs[0].shape[1:])
            return make(self, node, given, as_image(before), as_image(after))
        except Refused as error:
            shape = list(node.input_tensors[0].shape[1:])
            refused = {"operator": type(layer).__name__, "place": layer.name, "input": shape}
            self._refusals.append({**refused, "reason": str(error)})
            return Value(self.add(layer.name, [given[0].name], None))


if __name__ == "__main__":
    common.answer(main)
