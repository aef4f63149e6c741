"""A trial's model in the ONNX format, made from its list of layers (docs/protocol.md).

The frameworks that run ONNX models share it. Names of values and constants are those of the layers.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from .onnx_layers import Graph, series
from .protocol import Trial, Weights

INPUT = "inputs"
# The newest operator set that ONNX Runtime 1.32 and OpenVINO 2026.4 both define.
OPSET = 27


def of(trial: Trial, weights: Weights, statistics: Weights) -> onnx.ModelProto:
    """The model of a batch of `trial.batch_size` samples, in float32 and channels first.

    Its input is `INPUT` (batch, channels, height, width), (batch, features), or for text (batch,
    length) in int32. Its output has the logits (batch, classes), or (batch, length, classes).
    `weights` and `statistics` are canonical. Raise NotImplementedError for an unknown kind of
    layer, and the errors of ONNX's checker where the model is not valid.
    """
    graph = Graph(trial.batch_size, {**weights, **statistics})
    output = series(graph, trial.layers, INPUT)
    made = helper.make_graph(
        graph.nodes,
        trial.architecture["name"],
        [_input(trial)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, _output_shape(trial))],
        [numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    # An engine refuses a format that is newer than itself; the oldest one that has the operator set
    # is enough.
    version = helper.find_min_ir_version_for(opsets)
    model = helper.make_model(made, opset_imports=opsets, ir_version=version)
    # The full check infers all shapes and compares them with that of the output.
    onnx.checker.check_model(model, full_check=True)
    return model


def _input(trial: Trial) -> Any:
    text = trial.layers[0]["kind"] == "embedding"
    shape = [trial.batch_size, *trial.architecture["input_shape"]]
    return helper.make_tensor_value_info(
        INPUT, TensorProto.INT32 if text else TensorProto.FLOAT, shape
    )


def _output_shape(trial: Trial) -> list[int]:
    text = trial.layers[0]["kind"] == "embedding"
    length = trial.architecture["input_shape"] if text else []
    return [trial.batch_size, *length, trial.architecture["classes"]]
