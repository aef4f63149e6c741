"""ONNX files as layers, with ONNX Runtime's own environment."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.errors import EngineError
from suite.importing import reading
from suite.importing.reading import Imported, ImportRefused
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.layers import BatchNorm, Conv2d, Dense, GlobalAvgPool2d, HardSigmoid, Relu
from tests.worker.conftest import in_environment, python_of

# The file of one of our models, by the module that ONNX Runtime and OpenVINO run.
EXPORT = """
import json, sys
from pathlib import Path
import numpy as np
import onnx
from suite.worker import onnx_graph, onnx_layers
folder = Path(sys.argv[1])
model = json.loads((folder / "model.json").read_text())
with np.load(folder / "given.npz") as file:
    weights = {name: file[name] for name in file.files}
graph = onnx_graph.Graph(2, weights)
end = onnx_layers.series(graph, model["layers"], "x")
helper, tensor = onnx.helper, onnx.TensorProto.FLOAT
made = helper.make_graph(
    graph.nodes, "net",
    [helper.make_tensor_value_info("x", tensor, [2, *model["input_shape"]])],
    [helper.make_tensor_value_info(end, tensor, [2, model["classes"]])],
    [onnx.numpy_helper.from_array(np.array(v), n) for n, v in graph.constants.items()],
)
onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 24)], ir_version=11),
          folder / "net.onnx")
"""
ONE_NODE = """
import sys
from pathlib import Path
import numpy as np
import onnx
from onnx import helper
tensor = onnx.TensorProto.FLOAT
given = eval(sys.argv[2])
constants = {n: np.asarray(v) for n, v in given.pop("constants", {}).items()}
names = ["x", *constants]
node = helper.make_node(given.pop("op"), names, ["v"], name="the_node", **given)
flat = helper.make_node("Flatten", ["v"], ["y"], name="flat")
graph = helper.make_graph(
    [node, flat], "g", [helper.make_tensor_value_info("x", tensor, ["batch", 4, 8, 8])],
    [helper.make_tensor_value_info("y", tensor, ["batch", "n"])],
    [onnx.numpy_helper.from_array(v, n) for n, v in constants.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnx.save(model, Path(sys.argv[1]) / "net.onnx")
"""
# One-dimensional operators, as exporters write them.
SIGNALS = """
import sys
from pathlib import Path
import numpy as np
import onnx
from onnx import helper
tensor, node, random = onnx.TensorProto.FLOAT, helper.make_node, np.random.default_rng(1)
shapes = {"w1": (6, 2, 5), "b1": (6,), "w2": (6, 3, 3), "w3": (6, 4, 4), "w4": (3, 4)}
constants = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
constants |= {"pads": np.array([0, 0, 1, 0, 0, 2]), "axes": np.array([2])}
nodes = [
    node("Conv", ["x", "w1", "b1"], ["c1"], pads=[2, 2], strides=[2], kernel_shape=[5]),
    node("Relu", ["c1"], ["r"]),
    node("MaxPool", ["r"], ["m"], kernel_shape=[3], strides=[2], pads=[1, 1]),
    node("Pad", ["m", "pads"], ["p"]),
    node("Conv", ["p", "w2"], ["c2"], group=2, dilations=[1]),
    node("ConvTranspose", ["c2", "w3"], ["t"], strides=[2], pads=[1, 1]),
    node("ReduceMean", ["t", "axes"], ["mean"], keepdims=0),
    node("Gemm", ["mean", "w4"], ["y"], transB=1),
]
graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info("x", tensor, ["batch", 2, 40])],
    [helper.make_tensor_value_info("y", tensor, ["batch", 3])],
    [onnx.numpy_helper.from_array(v, n) for n, v in constants.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnx.save(model, Path(sys.argv[1]) / "net.onnx")
"""
# As PaddlePaddle's exporter writes a network: weights and numbers are nodes, the batch is -1, hard
# swish is four operators, and an Identity follows the softmax.
OF_PADDLE = """
import sys
from pathlib import Path
import numpy as np
import onnx
from onnx import helper
tensor, node, random = onnx.TensorProto.FLOAT, helper.make_node, np.random.default_rng(1)
shapes = {"w1": (6, 3, 3, 3), "b1": (6,), "w2": (6, 6, 1, 1), "w3": (6, 4)}
constants = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
constants |= {n: np.float32([v]) for n, v in {"zero": 0, "three": 3, "six": 6}.items()}
constants |= {"axes": np.array([1, 6, 1, 1]), "flat": np.array([-1, 6])}
made = {n: onnx.numpy_helper.from_array(np.array(v), n) for n, v in constants.items()}
nodes = [node("Constant", [], [name], value=value) for name, value in made.items()]
nodes += [
    node("Conv", ["x", "w1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    node("Reshape", ["b1", "axes"], ["bias"]),
    node("Add", ["c1", "bias"], ["c"]),
    node("Add", ["c", "three"], ["plus"]),
    node("Clip", ["plus", "zero", "six"], ["clipped"]),
    node("Mul", ["c", "clipped"], ["product"]),
    node("Div", ["product", "six"], ["swish"]),
    node("Conv", ["swish", "w2"], ["c2"], kernel_shape=[1, 1]),
    node("HardSigmoid", ["c2"], ["gate"], alpha=0.2, beta=0.5),
    node("Mul", ["swish", "gate"], ["gated"]),
    node("GlobalAveragePool", ["gated"], ["pooled"]),
    node("Reshape", ["pooled", "flat"], ["features"]),
    node("MatMul", ["features", "w3"], ["logits"]),
    node("Softmax", ["logits"], ["shares"], axis=1),
    node("Identity", ["shares"], ["y"]),
]
graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info("x", tensor, [-1, 3, 8, 8])],
    [helper.make_tensor_value_info("y", tensor, [-1, 4])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.save(model, Path(sys.argv[1]) / "net.onnx")
"""
# A sum of the inputs: SHAPES has a shape of each, TYPE the type of all.
INPUTS = """
import sys
from pathlib import Path
import onnx
from onnx import helper
shapes, dtype = eval(sys.argv[2]), getattr(onnx.TensorProto, sys.argv[3])
given = [helper.make_tensor_value_info(f"x{n}", dtype, s) for n, s in enumerate(shapes)]
nodes = [
    helper.make_node("Sum", [each.name for each in given], ["s"]),
    helper.make_node("Sqrt", ["s"], ["r"]),
    helper.make_node("Flatten", ["r"], ["y"]),
]
nodes = nodes if len(shapes) > 1 else [helper.make_node("Flatten", ["x0"], ["y"])]
result = helper.make_tensor_value_info("y", dtype, ["batch", "n"])
graph = helper.make_graph(nodes, "g", given, [result])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.save(model, Path(sys.argv[1]) / "net.onnx")
"""
Read = Callable[..., Imported]


def read(folder: Path, shape: tuple[int, ...] | None = None) -> Imported:
    python = python_of("onnxruntime")
    return reading.from_onnx(folder / "net.onnx", shape, name="net", python=python, folder=folder)


def exported(model: Architecture, folder: Path) -> dict[str, np.ndarray]:
    """Write net.onnx with random weights, which are returned."""
    random = np.random.default_rng(1)
    named = (*model.parameters(), *model.statistics())
    weights = {
        each.name: (np.abs(random.normal(size=each.shape)) + 0.5).astype(np.float32) * 0.1
        for each in named
    }
    np.savez(folder / "given.npz", **weights)
    (folder / "model.json").write_text(json.dumps(model.to_json()))
    in_environment("onnxruntime", EXPORT, str(folder), folder=folder)
    return weights


@pytest.mark.parametrize(
    "name",
    [
        *("lenet", "kent_medium", "every_mobile", "every_window", "every_channel"),
        *("every_decoder", "every_response"),
    ],
)
def test_our_own_files_give_the_layers_that_they_were_made_of(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    weights = exported(model, tmp_path)
    found = read(tmp_path)
    kinds = [
        (each.kind, each.parameters()[:1] and each.parameters()[0].shape)
        for each in found.architecture.leaves()
    ]
    assert kinds == [
        (each.kind, each.parameters()[:1] and each.parameters()[0].shape) for each in model.leaves()
    ]
    assert found.architecture.parameter_count == model.parameter_count
    given = sorted(float(np.abs(each).sum()) for each in weights.values())
    assert sorted(
        float(np.abs(each).sum()) for each in found.own.weights.values()
    ) == pytest.approx(given, rel=1e-6)
    plain = replace(model, name="net")
    assert found.architecture.flops_per_sample("infer") == plain.flops_per_sample("infer")
    assert found.tolerance == 1e-5 and found.runtime.startswith("ONNX Runtime ")


def test_with_changed_weights_batch_norms_have_the_statistics_of_the_inputs(
    tmp_path: Path,
) -> None:
    """Otherwise the result would hardly depend on the input after a few of them."""
    widths = (1, 4, 4, 4)
    blocks = [
        (
            Conv2d(name=f"conv{n}", in_channels=widths[n], out_channels=4, kernel=(3, 3)),
            BatchNorm(name=f"norm{n}", channels=4),
            Relu(name=f"relu{n}"),
        )
        for n in range(len(widths))
    ]
    end = (GlobalAvgPool2d(name="pool"), Dense(name="end", in_features=4, out_features=3))
    layers = tuple(itertools.chain(*blocks, end))
    exported(
        Architecture(name="norms", input_shape=(1, 12, 12), classes=3, layers=layers), tmp_path
    )
    changed = read(tmp_path).changed
    spread = changed.logits - changed.logits.mean(axis=0)
    assert np.linalg.norm(spread) > 0.01 * np.linalg.norm(changed.logits)
    first, rest = changed.inputs[:2], changed.weights
    windows = np.lib.stride_tricks.sliding_window_view(first[:, 0], (3, 3), (1, 2))
    (name,) = (each for each in rest if rest[each].shape == (4, 1, 3, 3))
    results = np.einsum("nyxab,oab->noyx", windows, rest[name][:, 0])
    bias = next(each for each in rest if each == name.replace("weight", "bias"))
    expected = results.mean(axis=(0, 2, 3)) + rest[bias]
    means = [each for key, each in rest.items() if key.endswith(".mean")]
    assert any(np.allclose(each, expected, rtol=1e-4, atol=1e-5) for each in means)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("{'op': 'Softplus'}", r"Softplus at the_node, input \[4, 8, 8\]: no layer"),
        (
            "{'op': 'Clip', 'constants': {'low': np.float32(0), 'high': np.float32(5)}}",
            "between 0.0 and 5.0",
        ),
        ("{'op': 'HardSigmoid', 'beta': 0.4}", "alpha 0.2, beta 0.4"),
        ("{'op': 'MaxPool', 'kernel_shape': [2, 2], 'pads': [1, 1, 0, 0]}", "padding 1, 0, 1, 0"),
        ("{'op': 'MaxPool', 'kernel_shape': [2, 2], 'auto_pad': 'SAME_LOWER'}", "padding 1, 0"),
        ("{'op': 'AveragePool', 'kernel_shape': [3, 3], 'ceil_mode': 1}", "whole windows"),
        ("{'op': 'Mul', 'constants': {'c': np.float32(2)}}", r"a constant of shape \(\)"),
        ("{'op': 'Transpose', 'perm': [0, 1, 3, 2]}", "no layer is this operator"),
        ("{'op': 'Erf'}", "no layer is this operator"),
        ("{'op': 'Add', 'constants': {'c': np.float32(2)}}", "a constant is added"),
    ],
)
def test_an_operator_that_is_no_layer_is_named(node: str, reason: str, tmp_path: Path) -> None:
    in_environment("onnxruntime", ONE_NODE, str(tmp_path), node, folder=tmp_path)
    with pytest.raises(ImportRefused, match=reason):
        read(tmp_path)


def test_a_file_of_paddle_s_exporter_is_read(tmp_path: Path) -> None:
    in_environment("onnxruntime", OF_PADDLE, str(tmp_path), folder=tmp_path)
    found = read(tmp_path)
    assert [each.kind for each in found.architecture.layers] == [
        *("conv2d", "hard_swish", "multiply", "global_avg_pool2d", "dense"),
    ]
    gate = next(each for each in found.architecture.leaves() if isinstance(each, HardSigmoid))
    assert gate.slope == 0.2 and found.ending == "softmax"
    (kernel,) = (each for each in found.own.weights.values() if each.shape == (6, 6, 1, 1))
    (changed,) = (each for each in found.changed.weights.values() if each.shape == kernel.shape)
    assert np.all(kernel != changed)


@pytest.mark.parametrize(
    ("shapes", "dtype", "given", "reason"),
    [
        ("[[2, 3], [2, 3]]", "FLOAT", None, "2 inputs and 1 outputs.*: Sqrt"),
        ("[[2, 3, 4, 4]]", "INT32", None, "type int32; float32 is read"),
        ("[['batch', 3, 'h', 'w']]", "FLOAT", None, r"input is open: 3x\?x\?"),
        ("[['batch', 3, 'h', 'w']]", "FLOAT", (8,), r"has the shape 3x\?x\?"),
    ],
)
def test_a_file_that_is_refused_as_a_whole_has_one_line(
    shapes: str, dtype: str, given: tuple[int, ...] | None, reason: str, tmp_path: Path
) -> None:
    in_environment("onnxruntime", INPUTS, str(tmp_path), shapes, dtype, folder=tmp_path)
    with pytest.raises(ImportRefused, match=reason):
        read(tmp_path, given)


@pytest.mark.verify
def test_signals_are_images_of_height_one(tmp_path: Path) -> None:
    in_environment("onnxruntime", SIGNALS, str(tmp_path), folder=tmp_path)
    found = read(tmp_path)
    assert [each.kind for each in found.architecture.layers] == [
        *("conv2d", "relu", "max_pool2d", "conv2d", "conv2d_transposed"),
        *("global_avg_pool2d", "dense"),
    ]
    assert found.architecture.input_shape == (2, 1, 40)
    assert found.own.inputs.shape == (32, 2, 1, 40) and found.own.logits.shape == (32, 3)


def test_an_open_shape_is_set(tmp_path: Path) -> None:
    in_environment("onnxruntime", ONE_NODE, str(tmp_path), "{'op': 'Relu'}", folder=tmp_path)
    assert read(tmp_path).architecture.input_shape == (4, 8, 8)
    assert read(tmp_path, (4, 6, 6)).architecture.input_shape == (4, 6, 6)
    assert "no batch norm and no dropout" in read(tmp_path).notes[0]


@pytest.mark.parametrize("content", [b"", b"no protobuf", b"\x08\x07"])
def test_a_damaged_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(EngineError, match=r"net\.onnx is not imported") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
