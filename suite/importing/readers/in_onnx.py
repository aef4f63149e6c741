"""An ONNX file as a graph of operations.

    python -m readers.in_onnx REQUEST.json

The request has `source` (the file), `input` (the shape of a sample; null: that of the file),
`samples`, `changed`, `seed` and `folder`. The answer is that of in_pytorch.py; the logits are those
of ONNX Runtime, in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import common, onnx_forms, onnx_norms, onnx_patterns, onnx_signals
from .common import Refused
from .onnx_operators import ENDINGS, OPERATORS, options_of
from .onnx_running import batch_size_of, computed, inputs_of, session_of

BATCH = 2  # of the shapes, where a file has none: samples are computed in batches of this size
OPSET = 7  # the oldest whose operators have today's inputs
# Operators of constants and shapes, or in a series that is one layer.
IN_SERIES = (
    *("Cast", "Constant", "ConstantOfShape", "Div", "Erf", "Gather", "LogSoftmax", "Shape"),
    *("Softmax", "Split", "Transpose", "Unsqueeze"),
)


def main(request: dict[str, Any]) -> None:
    folder, source = Path(request["folder"]), Path(request["source"])
    model = with_shapes(onnx.load(source), request["input"])
    shapes = shapes_of(model)
    graph = Converter(model, shapes)
    nodes, refusals = graph.convert()
    if refusals:
        common.write_refusals(folder, refusals)
        return
    if (dtype := dtype_of(inputs_of(model)[0])) != np.float32:
        raise common.FileRefused(f"its input has the type {dtype}; float32 is read")
    inputs = common.random_inputs(request, graph.input_shape)
    results = computed(model, inputs)
    logits = common.flat(results)
    if results.ndim > logits.ndim:
        common.flatten_at_the_end(nodes)
    common.write_results(folder, "own", graph.weights, logits)
    changed, changed_logits = with_noise(
        model, shapes, inputs[: request["changed"]], request["seed"]
    )
    other = Converter(changed, shapes)
    other.convert()
    common.write_results(folder, "changed", other.weights, changed_logits)
    notes = [] if "BatchNormalization" in graph.operators else graph.notes()
    notes += [common.ENDING.format(graph.ending)] if graph.ending else []
    values = {
        "nodes": nodes,
        "notes": notes,
        "ending": graph.ending,
        "classes": int(logits.shape[-1]),
        "shape": graph.shape_of_layers,
        "runtime": f"ONNX Runtime {onnxruntime.__version__}, float32",
    }
    common.write(folder, values, inputs.reshape(len(inputs), *graph.shape_of_layers))


def with_noise(
    model: Any, shapes: dict[str, tuple[int, ...]], inputs: Any, seed: int
) -> tuple[Any, Any]:
    """The model with noise in its weights, and its logits; batch norms have statistics of inputs.

    Of two kinds of noise, it is that with which the logits depend more on the inputs: in float32,
    what depends on them little is only rounding.
    """
    found = []
    for noise in (common.lively_noise, common.noise):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        change(other, seed, noise)
        onnx_norms.calibrate(other, shapes, inputs)
        logits = common.flat(computed(other, inputs))
        spread = np.linalg.norm(logits - logits.mean(axis=0)) / np.linalg.norm(logits)
        found.append((float(np.nan_to_num(spread)), other, logits))
    return max(found, key=lambda each: each[0])[1:]


def change(model: Any, seed: int, noise: Callable[..., Any]) -> None:
    """Add noise to the weights of a model; single numbers are limits and rates, and stay."""
    random = np.random.default_rng(seed)
    sizes = {name for node in model.graph.node if node.op_type == "Resize" for name in node.input}
    for each in model.graph.initializer:
        values = numpy_helper.to_array(each)
        if values.dtype != np.float32 or values.size < 2 or each.name in sizes:
            continue
        changed = values + noise(values, random)
        each.CopyFrom(numpy_helper.from_array(changed.astype(np.float32), each.name))


def with_shapes(model: Any, shape: list[int] | None) -> Any:
    """The model with its input's shape set; raise FileRefused where it is wrong."""
    onnx.checker.check_model(model)
    versions = {each.version for each in model.opset_import if each.domain in ("", "ai.onnx")}
    if versions and min(versions) < OPSET:
        raise common.FileRefused(f"opset {min(versions)}: {OPSET} and newer are read")
    inputs = inputs_of(model)
    if len(inputs) != 1 or len(model.graph.output) != 1:
        unknown = sorted({each.op_type for each in model.graph.node} - {*OPERATORS, *IN_SERIES})
        numbers = f"{len(inputs)} inputs and {len(model.graph.output)} outputs, not one of each"
        operators = f"; operators that are no layer: {', '.join(unknown)}" if unknown else ""
        raise common.FileRefused(numbers + operators)
    dims = inputs[0].type.tensor_type.shape.dim
    # An open size is 0, or in files of some exporters -1.
    batch, *own = [max(each.dim_value, 0) for each in dims]
    wanted = shape or own
    known = "x".join(str(each or "?") for each in own)
    if len(wanted) != len(own):
        raise common.FileRefused(
            f"its input has the shape {known}", hint="--input has the shape of one sample"
        )
    if not all(wanted):
        raise common.FileRefused(
            f"the shape of its input is open: {known}", hint="--input 3x224x224 sets it"
        )
    # A file for one batch size may have it in the shapes of its reshapes.
    for dim, size in zip(dims, [batch or BATCH, *wanted], strict=True):
        dim.dim_value = size
    _fill_constants(model)
    _remove_last_identity(model.graph)
    for each in (*model.graph.output, *model.graph.value_info):
        each.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def dtype_of(given: Any) -> Any:
    """The numpy type of an input."""
    return helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)


def _fill_constants(model: Any) -> None:
    """Make the results of Constant and ConstantOfShape initializers: weights like others."""
    for node in [each for each in model.graph.node if each.op_type == "Constant"]:
        if (value := options_of(node).get("value")) is not None:
            whole = numpy_helper.to_array(value)
            model.graph.initializer.append(numpy_helper.from_array(whole, node.output[0]))
            model.graph.node.remove(node)
    shapes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in [*model.graph.node]:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            value = options_of(node).get("value")
            filled = numpy_helper.to_array(value) if value is not None else np.zeros(1, np.float32)
            whole = np.full(shapes[node.input[0]], filled[0])
            model.graph.initializer.append(numpy_helper.from_array(whole, node.output[0]))
            model.graph.node.remove(node)


def _remove_last_identity(graph: Any) -> None:
    """Make the result of the graph that of the node before an Identity at its end."""
    result = graph.output[0].name
    end = next((each for each in graph.node if result in each.output), None)
    if end is None or end.op_type != "Identity":
        return
    before = next((each for each in graph.node if end.input[0] in each.output), None)
    if before is None or sum(end.input[0] in each.input for each in graph.node) > 1:
        return
    before.output[[*before.output].index(end.input[0])] = result
    graph.node.remove(end)


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of all values without the batch, by computing them once.

    Inference finds no shape where a size is computed, nor the result of a group norm.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    known = {each.name for each in whole.graph.output}
    names = [name for node in whole.graph.node for name in node.output if name not in known]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name)
    session, given = session_of(whole)
    shape = [each.dim_value for each in given.type.tensor_type.shape.dim]
    values = session.run(None, {given.name: np.zeros(shape, dtype_of(given))})
    named = {each.name: value for each, value in zip(session.get_outputs(), values, strict=True)}
    return {given.name: tuple(shape[1:])} | {
        name: np.shape(value)[1:] for name, value in named.items()
    }


class Converter:
    """The nodes of a model as nodes of a graph of layers."""

    def __init__(self, model: Any, shapes: dict[str, tuple[int, ...]]) -> None:
        self._model, self._graph = model, model.graph
        self._constants = {
            each.name: numpy_helper.to_array(each) for each in self._graph.initializer
        }
        self._shapes = shapes
        self._list = onnx_patterns.fused(self._graph)
        self._users = Counter(name for node in self._list for name in node.input)
        self._forms: dict[str, onnx_forms.Form] = {}  # of values with another order of axes
        self._names: dict[str, str] = {}  # of the node that makes a value
        self._nodes: dict[str, dict[str, Any]] = {}
        self.weights: dict[str, Any] = {}
        self.ending: str | None = None  # one of ENDINGS, the last operator
        self.operators = {each.op_type for each in self._graph.node}
        given = inputs_of(model)[0]
        self.input_shape = self._shapes[given.name]
        # Values with the shape (channels, length), which are images of height 1 here.
        self._signals = {given.name} if len(self.input_shape) == 2 else set()
        self.shape_of_layers = self.shape_of(given.name)
        self._batch = batch_size_of(given)
        self._add(given.name, "input", [], None)

    def notes(self) -> list[str]:
        """What an exported graph may lack."""
        return [
            "no batch norm and no dropout in the file: an export for inference folds the one and"
            " leaves out the other; an export with training=TrainingMode.PRESERVE keeps them"
        ]

    def convert(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The nodes, and the operations that cannot be taken."""
        refusals = []
        for node in self._list:
            if all(each in self._constants or not each for each in node.input):
                self._fold(node)
                continue
            if node.op_type == "Shape" and node.input[0] in self._shapes:
                shape = (self._batch, *self._shapes[node.input[0]])
                self._constants[node.output[0]] = np.array(shape, np.int64)
                continue
            try:
                self.ending = self._ending(node)
                if node.op_type == "Split":
                    self._split(node)
                else:
                    self._convert(node)
            except (Refused, LookupError, TypeError, ValueError) as error:
                tensors = self._tensors(node)
                before = list(self._shapes.get(tensors[0], ()))
                reason = {"operator": node.op_type, "place": node.name, "input": before}
                text = (
                    "{}" if isinstance(error, Refused) else "it has another form than expected ({})"
                )
                refusals.append({**reason, "reason": text.format(error)})
                for output in node.output:
                    inputs = [self._names[each] for each in tensors]
                    self._add(output, self._unique(output), inputs, None)
        end = self._names[self._graph.output[0].name]
        if list(self._nodes)[-1] != end:
            self._add("", "end", [end], None)
        return list(self._nodes.values()), refusals

    def _tensors(self, node: Any) -> list[str]:
        """The inputs that are no constants."""
        return [each for each in node.input if each and each not in self._constants]

    def _convert(self, node: Any) -> None:
        """Add a node with one result."""
        name, tensors = self._unique(node.name or node.output[0]), self._tensors(node)
        layer = None if self.ending else self._layer(node, name)
        self._add(node.output[0], name, [self._names[each] for each in tensors], layer)

    def _split(self, node: Any) -> None:
        """Add the parts of an image's channels."""
        before, options = self.shape_of(node.input[0]), options_of(node)
        if options.get("axis", 0) != 1 or len(before) != 3:
            raise Refused("a split is along the channels of an image")
        start = 0
        for output in node.output:
            stop = start + self._shapes[output][0]
            if self.is_signal(node.input[0]):
                self._signals.add(output)
            part = {"kind": "channel_slice", "start": start, "stop": stop}
            self._add(output, self._unique(output), [self._names[node.input[0]]], part)
            start = stop

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
        options, (first, *others) = options_of(node), self._tensors(node)
        form = self._forms.get(first, onnx_forms.PLAIN)
        if any(self._forms.get(each, onnx_forms.PLAIN) != form for each in others):
            raise Refused("its inputs have different orders of axes")
        if self.is_signal(first):
            if node.op_type == "Transpose" and [*options["perm"]] == [0, 2, 1]:
                return {"kind": "tokens"}
            if len(self._shapes[node.output[0]]) == 2:
                self._signals.add(node.output[0])
            options = onnx_signals.as_of_image(options)
        before, after = self.shape_of(first), self.shape_of(node.output[0])
        if (found := onnx_forms.changed(node.op_type, options, form, before, after)) is not None:
            layer, self._forms[node.output[0]] = found
            return layer
        make = OPERATORS.get(node.op_type)
        if make is None or node.domain not in ("", "ai.onnx"):
            raise Refused("no layer is this operator")
        if form != onnx_forms.PLAIN:
            if form[0] != "last" or node.op_type not in onnx_forms.POINTWISE:
                raise Refused("its input has another order of axes than layers have")
            self._forms[node.output[0]] = form
        return make(self, node, name, options)

    def channels_last(self, value: str) -> bool:
        """Whether a value is an image with channels last."""
        return self._forms.get(value, onnx_forms.PLAIN)[0] == "last"

    def is_used_once(self, value: str) -> bool:
        return self._users[value] == 1

    def is_signal(self, value: str) -> bool:
        return value in self._signals

    def shape_of(self, value: str) -> tuple[int, ...]:
        """The shape of a value as layers have it."""
        shape = self._shapes[value]
        return (shape[0], 1, shape[1]) if self.is_signal(value) else shape

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
        """The node of a value, or the one whose result it passes on."""
        node = self._nodes[self._names[value]]
        while node["layer"] is None and len(node["inputs"]) == 1:
            node = self._nodes[node["inputs"][0]]
        return node


if __name__ == "__main__":
    common.answer(main)
