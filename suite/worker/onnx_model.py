"""A trial's model in the ONNX format, made from its list of layers (docs/reference/protocol.md).

The frameworks that run ONNX models share it. It needs the package onnx in their environments.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .layouts import input_form, output_shape
from .onnx_graph import INPUT, Graph
from .onnx_layers import series
from .protocol import Trial, Weights

LAYOUT = "NCHW"
# The newest operator set for which both frameworks have a kernel of each operator. ONNX Runtime
# 1.32 and OpenVINO 2026.4 also know set 27, but ONNX Runtime has no kernel for the Attention of set
# 25: it would compute it by many small operators.
OPSET = 24


def of(trial: Trial, weights: Weights, statistics: Weights) -> onnx.ModelProto:
    """The model for batches of `trial.batch_size` samples in float32, with channels first.

    Its input is `INPUT` (batch, channels, height, width), (batch, features), or of a text (batch,
    length) in int32. Its output are the logits (batch, classes), or (batch, length, classes).
    `weights` and `statistics` are canonical. Raise NotImplementedError for an unknown kind of
    layer, and onnx.checker.ValidationError or onnx.shape_inference.InferenceError where the model
    is not valid.
    """
    graph = Graph(trial.batch_size, {**weights, **statistics})
    output = series(graph, trial.layers, INPUT)
    shape, dtype = input_form(trial, LAYOUT)
    made = helper.make_graph(
        graph.nodes,
        trial.architecture["name"],
        [_value(INPUT, shape, dtype)],
        [_value(output, output_shape(trial), "float32")],
        [numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    # A framework refuses a newer format than it knows, so the model has the oldest one of its
    # operator set.
    version = helper.find_min_ir_version_for(opsets)
    model = helper.make_model(made, opset_imports=opsets, ir_version=version)
    # The full check infers the shapes of all values, and compares that of the output.
    onnx.checker.check_model(model, full_check=True)
    return model


def _value(name: str, shape: tuple[int, ...], dtype: str) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)
