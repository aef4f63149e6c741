"""An ONNX file as a graph of operations.

    python -m readers.in_onnx REQUEST.json

The request has `source` (the file), `input` (the shape of a sample; null: that of the file),
`samples`, `changed`, `seed` and `folder`. The answer is that of in_pytorch.py; the logits are those
of ONNX Runtime, in float32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from . import common
from .common import Refused, flattened, same_sides, sides, simple, whole_pool

BATCH = 2  # of the shapes; samples are computed in batches of this size
OPSET = 7  # the oldest whose operators have today's inputs
CLIP_TO_6 = (0.0, 6.0)
ENDINGS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}


def main(request: dict[str, Any]) -> None:
    folder, source = Path(request["folder"]), Path(request["source"])
    model = with_shapes(onnx.load(source), request["input"])
    graph = Converter(model)
    nodes, refusals = graph.convert()
    inputs = common.random_inputs(request, graph.shape)
    logits = computed(model, inputs)
    common.write_results(folder, "own", graph.weights, logits)
    if not refusals:
        change(model, request["seed"])
        other = Converter(model)
        other.convert()
        changed = computed(model, inputs[: request["changed"]])
        common.write_results(folder, "changed", other.weights, changed)
    notes = [] if "BatchNormalization" in graph.operators else graph.notes()
    notes += [common.ENDING.format(graph.ending)] if graph.ending else []
    values = {
        "nodes": nodes,
        "refusals": refusals,
        "notes": notes,
        "ending": graph.ending,
        "classes": int(logits.shape[-1]),
        "shape": graph.shape,
        "runtime": f"ONNX Runtime {onnxruntime.__version__}, float32",
    }
    common.write(folder, values, inputs)


def change(model: Any, seed: int) -> None:
    """Add noise to the weights of a model; single numbers are limits and rates, and stay."""
    random = np.random.default_rng(seed)
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    variances = {node.input[4] for node in norms}
    for each in model.graph.initializer:
        values = numpy_helper.to_array(each)
        if values.dtype != np.float32 or values.size < 2:
            continue
        if each.name in variances:
            changed = values * (0.5 + random.random(values.shape))
        else:
            changed = values + common.noise(values, random)
        each.CopyFrom(numpy_helper.from_array(changed.astype(np.float32), each.name))


def with_shapes(model: Any, shape: list[int] | None) -> Any:
    """The model with its input's shape set and all others inferred.

    Raise ValueError where it is wrong.
    """
    onnx.checker.check_model(model)
    versions = {each.version for each in model.opset_import if each.domain in ("", "ai.onnx")}
    if versions and min(versions) < OPSET:
        raise ValueError(f"opset {min(versions)}: {OPSET} and newer are read")
    constants = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in constants]
    if len(inputs) != 1 or len(model.graph.output) != 1:
        raise ValueError(
            f"{len(inputs)} inputs and {len(model.graph.output)} outputs, not one of each"
        )
    dims = inputs[0].type.tensor_type.shape.dim
    own = [each.dim_value for each in dims][1:]
    for dim, size in zip(dims, [BATCH, *(shape or own)], strict=True):
        dim.dim_value = size
    if not all(each.dim_value for each in dims):
        raise ValueError("the shape of its input is open: --input has it")
    for each in (*model.graph.output, *model.graph.value_info):
        each.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def computed(model: Any, inputs: Any) -> Any:
    """The logits of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    constants = {each.name for each in model.graph.initializer}
    name = next(each.name for each in model.graph.input if each.name not in constants)
    batches = [inputs[first : first + BATCH] for first in range(0, len(inputs), BATCH)]
    return np.concatenate([session.run(None, {name: each})[0] for each in batches])


class Converter:
    """The nodes of a model as nodes of a graph of layers."""

    def __init__(self, model: Any) -> None:
        self._model, self._graph = model, model.graph
        self._constants = {
            each.name: numpy_helper.to_array(each) for each in self._graph.initializer
        }
        values = (*self._graph.input, *self._graph.value_info, *self._graph.output)
        self._shapes = {
            each.name: tuple(dim.dim_value for dim in each.type.tensor_type.shape.dim)[1:]
            for each in values
        }
        self._names: dict[str, str] = {}  # of the node that makes a value
        self._nodes: dict[str, dict[str, Any]] = {}
        self.weights: dict[str, Any] = {}
        self.ending: str | None = None  # one of ENDINGS, the last operator
        self.operators = {each.op_type for each in self._graph.node}
        inputs = [each.name for each in self._graph.input if each.name not in self._constants]
        self.shape = list(self._shapes[inputs[0]])
        self._add(inputs[0], "input", [], None)

    def notes(self) -> list[str]:
        """What an exported graph may lack."""
        return [
            "no batch norm and no dropout in the file: an export for inference folds the one and"
            " leaves out the other; an export with training=TrainingMode.PRESERVE keeps them"
        ]

    def convert(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The nodes, and the operations that cannot be taken."""
        refusals = []
        for node in self._graph.node:
            if all(each in self._constants or not each for each in node.input):
                self._fold(node)
                continue
            name = self._unique(node.name or node.output[0])
            tensors = [each for each in node.input if each and each not in self._constants]
            try:
                self.ending = self._ending(node)
                layer = None if self.ending else self._layer(node, name)
            except Refused as error:
                layer = None
                before = list(self._shapes.get(tensors[0], ()))
                reason = {"operator": node.op_type, "place": node.name, "input": before}
                refusals.append({**reason, "reason": str(error)})
            self._add(node.output[0], name, [self._names[each] for each in tensors], layer)
        end = self._names[self._graph.output[0].name]
        if list(self._nodes)[-1] != end:
            self._add("", "end", [end], None)
        return list(self._nodes.values()), refusals

    def _ending(self, node: Any) -> str | None:
        """The part of a loss that the node is, over the outputs and the last operator."""
        options = options_of(node)
        last = node.output[0] == self._graph.output[0].name
        classes = options.get("axis", -1) in (1, -1) and len(self._shapes[node.output[0]]) == 1
        return ENDINGS.get(node.op_type) if last and classes else None

    def _add(self, value: str, name: str, inputs: list[str], layer: dict[str, Any] | None) -> None:
        self._names[value] = name
        self._nodes[name] = {"name": name, "inputs": inputs, "layer": layer}

    def _unique(self, text: str) -> str:
        return common.as_name(text, set(self._nodes))

    def _fold(self, node: Any) -> None:
        """Compute a node of constants now."""
        values = {each: self._constants[each] for each in node.input if each}
        types = [helper.make_tensor_value_info(n, 0, None) for n in node.output]
        graph = helper.make_graph([node], "constants", [], types)
        for name, value in values.items():
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        model = helper.make_model(graph, opset_imports=self._model.opset_import)
        results = ReferenceEvaluator(model).run(None, {})
        self._constants.update(zip(node.output, results, strict=True))

    def _layer(self, node: Any, name: str) -> dict[str, Any] | None:
        make = OPERATORS.get(node.op_type)
        if make is None or node.domain not in ("", "ai.onnx"):
            raise Refused("no layer is this operator")
        options = options_of(node)
        return make(self, node, name, options)

    def shape_of(self, value: str) -> tuple[int, ...]:
        return self._shapes[value]

    def constant(self, node: Any, position: int) -> Any:
        """The constant at this input; None where there is none."""
        if len(node.input) <= position or not node.input[position]:
            return None
        if node.input[position] not in self._constants:
            raise Refused(f"input {position} is computed, not a constant")
        return self._constants[node.input[position]]

    def is_constant(self, value: str) -> bool:
        return value in self._constants

    def layer_before(self, value: str) -> dict[str, Any]:
        return self._nodes[self._names[value]]


def options_of(node: Any) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def window(options: dict[str, Any], kernel: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Kernel, stride and padding of a window on an input of `shape`."""
    sizes, strides = [int(each) for each in kernel], list(options.get("strides", [1, 1]))
    dilation = options.get("dilations", [1, 1])
    mode = options.get("auto_pad", b"NOTSET").decode()
    top, left, bottom, right = options.get("pads", [0, 0, 0, 0])
    if mode.startswith("SAME"):
        extent = [d * (k - 1) + 1 for d, k in zip(dilation, sizes, strict=True)]
        top, bottom, left, right = same_sides(shape[1:], extent, strides)
        if mode == "SAME_LOWER":
            top, bottom, left, right = bottom, top, right, left
    return {
        "kernel": sizes,
        "stride": [int(each) for each in strides],
        **sides(int(top), int(bottom), int(left), int(right)),
    }


def conv(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight, bias = graph.constant(node, 1), graph.constant(node, 2)
    if weight.ndim != 4:
        raise Refused(f"{weight.ndim - 2} axes: a convolution has two")
    groups = int(options.get("group", 1))
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    if bias is not None:
        graph.weights[f"{name}.bias"] = bias.astype(np.float64)
    return {
        "kind": "conv2d",
        "in_channels": int(weight.shape[1]) * groups,
        "out_channels": int(weight.shape[0]),
        **window(options, weight.shape[2:], graph.shape_of(node.input[0])),
        "bias": bias is not None,
        "groups": groups,
        "dilation": [int(each) for each in options.get("dilations", [1, 1])],
    }


def gemm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("transA") or options.get("alpha", 1) != 1 or options.get("beta", 1) != 1:
        raise Refused("a dense layer has alpha 1, beta 1 and no transposed input")
    weight = graph.constant(node, 1)
    return dense(
        graph, name, weight if options.get("transB") else weight.T, graph.constant(node, 2)
    )


def matmul(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight = graph.constant(node, 1)
    if weight.ndim != 2:
        raise Refused(f"a weight of shape {weight.shape}: a matrix")
    return dense(graph, name, weight.T, None)


def dense(graph: Converter, name: str, weight: Any, bias: Any) -> dict[str, Any]:
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    if bias is not None:
        graph.weights[f"{name}.bias"] = np.broadcast_to(bias.reshape(-1), weight.shape[:1]).astype(
            np.float64
        )
    outputs, inputs = (int(each) for each in weight.shape)
    features = {"in_features": inputs, "out_features": outputs}
    return {"kind": "dense", **features, "bias": bias is not None}


def batch_norm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    before = graph.shape_of(node.input[0])
    if len(before) not in (1, 3):
        raise Refused("a batch norm takes images or vectors")
    for position, role in enumerate(("weight", "bias", "mean", "variance"), 1):
        graph.weights[f"{name}.{role}"] = graph.constant(node, position).astype(np.float64)
    return {
        "kind": "batch_norm",
        "channels": len(graph.constant(node, 1)),
        "epsilon": float(np.float32(options.get("epsilon", 1e-5)).astype(str)),
        "momentum": round(1 - float(options.get("momentum", 0.9)), 6),
        "initial_scale": 1.0,
        "images": len(before) == 3,
    }


def max_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    if list(options.get("dilations", [1, 1])) != [1, 1] or len(node.output) > 1:
        raise Refused("a pool has no dilation and no indices")
    sizes = window(options, options["kernel_shape"], graph.shape_of(node.input[0]))
    return {"kind": "max_pool2d", **sizes, "ceil": bool(options.get("ceil_mode", 0))}


def avg_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    sizes = window(options, options["kernel_shape"], graph.shape_of(node.input[0]))
    if options.get("ceil_mode", 0):
        raise Refused("an average pool has whole windows")
    padded = any((*sizes["padding"], *sizes["extra_padding"]))
    counts = bool(options.get("count_include_pad", 0)) or not padded
    return {"kind": "avg_pool2d", **sizes, "count_padding": counts}


def global_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return whole_pool(graph.shape_of(node.input[0]))


def reduce_mean(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    axes = options.get("axes")
    axes = graph.constant(node, 1) if axes is None else axes
    rank = len(graph.shape_of(node.input[0])) + 1
    if axes is None or sorted(int(each) % rank for each in axes) != [2, 3]:
        raise Refused(f"axes {axes}: a mean is over height and width")
    if options.get("keepdims", 1):
        return global_pool(graph, node, name, options)
    return {"kind": "global_avg_pool2d"}


def reshape(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any] | None:
    return flattened(graph.shape_of(node.input[0]), graph.shape_of(node.output[0]))


def clip(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    low = options.get("min", graph.constant(node, 1))
    high = options.get("max", graph.constant(node, 2))
    if low is None or high is None or (float(low), float(high)) != CLIP_TO_6:
        raise Refused(f"between {low} and {high}: relu6 is between 0 and 6")
    return {"kind": "relu6"}


def hard_sigmoid(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    alpha, beta = options.get("alpha", 0.2), options.get("beta", 0.5)
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise Refused(f"alpha {alpha:g}, beta {beta:g}: hard_sigmoid is relu6(x + 3) / 6")
    return {"kind": "hard_sigmoid"}


def add(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """A join, or the bias of the dense layer before."""
    constant = [each for each in node.input if graph.is_constant(each)]
    if not constant:
        if len({graph.shape_of(each) for each in node.input}) > 1:
            raise Refused("a sum is that of two tensors of one shape")
        return {"kind": "add"}
    value = next(each for each in node.input if not graph.is_constant(each))
    before = graph.layer_before(value)
    bias = graph.constant(node, list(node.input).index(constant[0]))
    layer = before["layer"] or {}
    if layer.get("kind") != "dense" or layer["bias"] or bias.size != layer["out_features"]:
        raise Refused("a constant is added: only the bias of a dense layer is one")
    layer["bias"] = True
    graph.weights[f"{before['name']}.bias"] = bias.reshape(-1).astype(np.float64)
    return None


def multiply(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    if any(map(graph.is_constant, node.input)):
        raise Refused("a constant is multiplied: no layer is that")
    return {"kind": "multiply"}


def concat(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    axis = options["axis"]
    if axis not in (1, -len(graph.shape_of(node.output[0]))):
        raise Refused(f"axis {axis}: a concatenation is along the channels")
    return {"kind": "concat"}


def dropout(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any] | None:
    ratio = options.get("ratio", graph.constant(node, 1))
    rate = 0.5 if ratio is None else float(ratio)
    return {"kind": "dropout", "rate": rate, "whole": False} if rate else None


def leaky_relu(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "leaky_relu",
        "slope": float(np.float32(options.get("alpha", 0.01)).astype(str)),
    }


def gelu(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "gelu", "approximate": options.get("approximate", b"none") == b"tanh"}


def pad(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any] | None:
    pads = options.get("pads")
    pads = graph.constant(node, 1) if pads is None else pads
    value = options.get("value", graph.constant(node, 2) or 0)
    if options.get("mode", b"constant") != b"constant" or float(value) or len(pads) != 8:
        raise Refused("a padding of an image is with zeros")
    numbers = [int(each) for each in pads]
    if any((*numbers[:2], *numbers[4:6])):
        raise Refused(f"pads {numbers}: of the height and width of an image")
    return common.pad(numbers[2], numbers[6], numbers[3], numbers[7])


OPERATORS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "Conv": conv,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": batch_norm,
    "MaxPool": max_pool,
    "AveragePool": avg_pool,
    "GlobalAveragePool": global_pool,
    "ReduceMean": reduce_mean,
    "Flatten": reshape,
    "Reshape": reshape,
    "Squeeze": reshape,
    "Identity": lambda *_: None,
    "Dropout": dropout,
    "Relu": simple("relu"),
    "Tanh": simple("tanh"),
    "Sigmoid": simple("sigmoid"),
    "HardSwish": simple("hard_swish"),
    "HardSigmoid": hard_sigmoid,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Gelu": gelu,
    "Add": add,
    "Mul": multiply,
    "Concat": concat,
    "Pad": pad,
}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
