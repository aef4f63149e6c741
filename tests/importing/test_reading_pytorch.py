"""Modules of PyTorch as layers, with PyTorch's own environment."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from suite.errors import EngineError, UsageError
from suite.importing import reading
from suite.importing.reading import Imported, ImportRefused
from suite.models.branches import Branches
from tests.worker.conftest import python_of

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
MODULE = "class Net(nn.Module):\n    def forward(self, x):\n"
Import = Callable[..., Imported]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def run(code: str, *, shape: tuple[int, ...] = (3, 8, 8), name: str = "Net") -> Imported:
        source = tmp_path / "net.py"
        source.write_text(HEAD + textwrap.dedent(code))
        python = python_of("pytorch")
        return reading.from_pytorch(
            str(source), name, shape, name="net", python=python, folder=tmp_path
        )

    return run


def kinds(found: Imported) -> list[str]:
    return [layer.kind for layer in found.architecture.layers]


def test_a_network_becomes_layers_with_its_weights(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.Conv1 = nn.Conv2d(3, 8, 3, padding=1, groups=1)
                self.norm = nn.BatchNorm2d(8, eps=1e-3, momentum=0.2)
                self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU())
                self.pool = nn.AdaptiveAvgPool2d(1)
                self.drop = nn.Dropout(0.3)
                self.fc = nn.Linear(8, 5)

            def forward(self, x):
                x = F.relu(self.norm(self.Conv1(x)))
                x = x + self.deep(x)
                x = F.max_pool2d(x, 2)
                x = self.pool(x).flatten(1)
                return self.fc(self.drop(x))
    """)
    assert kinds(found) == [
        *("conv2d", "batch_norm", "relu", "add", "max_pool2d", "global_avg_pool2d"),
        *("dropout", "dense"),
    ]
    assert found.architecture.classes == 5 and found.logits.shape == (32, 5)
    names = [each.name for each in found.architecture.parameters()]
    assert set(names) | {"norm.mean", "norm.variance"} == set(found.weights)
    for each in found.architecture.parameters():
        assert found.weights[each.name].shape == each.shape
    norm = found.architecture.layers[1]
    assert (norm.epsilon, norm.momentum) == (1e-3, 0.2)  # type: ignore[attr-defined]
    assert not found.notes and np.isfinite(found.logits).all()


def test_squeeze_and_excitation_is_a_product(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Sequential(
                    nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 3, 1), nn.Hardsigmoid())
                self.end = nn.Linear(3 * 64, 4)

            def forward(self, x):
                x = self.gate(x) * x
                return self.end(x.view(x.size(0), -1))
    """)
    assert kinds(found) == ["multiply", "flatten", "dense"]
    gate = found.architecture.layers[0]
    assert isinstance(gate, Branches)
    assert [each.kind for each in gate.branches[0]] == ["avg_pool2d", "conv2d", "hard_sigmoid"]


def test_a_function_and_an_object_are_models_too(imported: Import) -> None:
    code = "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 3))\nnet = make()\n"
    assert kinds(imported(code, name="make")) == ["flatten", "dense"]
    assert kinds(imported(code, name="net")) == ["flatten", "dense"]


def test_several_results_in_training_are_traced_in_inference(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(192, 3)

            def forward(self, x):
                x = self.fc(x.flatten(1))
                return (x, x) if self.training else x
    """)
    assert kinds(found) == ["flatten", "dense"] and "several results" in found.notes[0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "nn.Conv2d(3, 4, 3, padding='same')",
            r"Conv2d at layer, input \[3, 8, 8\]: padding='same'",
        ),
        ("nn.GELU('tanh')", "approximate='tanh'"),
        ("nn.Softplus()", "Softplus at layer, input .*: no layer is this module"),
        ("nn.BatchNorm2d(3, affine=False)", "a batch norm has a scale"),
        ("nn.AvgPool2d(3, padding=1, count_include_pad=False)", "padding counts as zeros"),
        ("nn.AdaptiveAvgPool2d(5)", "the windows have several sizes"),
        ("nn.MaxPool2d(2, dilation=2)", "dilation=2"),
        ("nn.LayerNorm([8, 8])", "over the last axis"),
    ],
)
def test_what_no_layer_is_is_named(imported: Import, body: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = {body}

                def forward(self, x):
                    return self.layer(x).flatten(1)
        """)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("x + 1", "add at add, .*: a sum is that of two tensors"),
        ("x.transpose(1, 2)", "transpose at transpose"),
        ("x * self.scale", "a tensor of the module that is no parameter"),
        ("self.fc(self.fc(x.flatten(1)))", "shared weights have no layer"),
    ],
)
def test_operations_are_named_too(imported: Import, expression: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3, 1, 1))
                    self.fc = nn.Linear(192, 192)

                def forward(self, x):
                    return ({expression}).flatten(1)
        """)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Net = 3", "not callable"),
        ("class Net:\n    pass", "not a torch.nn.Module"),
        ("import no_such_module", "No module named"),
        ("def Net(", "SyntaxError"),
        (
            f"{MODULE}        return x if x.sum() > 0 else -x\n",
            "control flow",
        ),
    ],
)
def test_code_that_fails_is_one_line(imported: Import, code: str, reason: str) -> None:
    with pytest.raises(EngineError, match=reason) as caught:
        imported(code)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "3x", "3x224", "3x0x2", "-1", "3,2,2", "1x2x3x4"])
def test_a_shape_is_numbers(text: str) -> None:
    with pytest.raises(UsageError, match="is no shape"):
        reading.shape_of(text)
    assert reading.shape_of("3x224x224") == (3, 224, 224) and reading.shape_of("16") == (16,)
