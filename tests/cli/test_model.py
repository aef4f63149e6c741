"""The commands `model import` and `model show`, with PyTorch's and JAX's environments."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.main import get_command

from suite.cli import main
from suite.errors import DlsuiteError, ManifestError, ParityFailed, UsageError
from suite.importing import reading
from suite.importing.reading import Imported, ImportRefused
from suite.manifests import model_files
from suite.models import MODELS
from suite.models.every_layer import every_mobile
from tests.importing.test_reading_onnx import exported

NET = """\
import torch
from torch import nn

class TinyNet(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Hardswish(),
            nn.Conv2d(4, 8, 3, groups=4), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.body(x))
"""


RECURRENT = """\
import torch
from torch import nn

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 12, 7, 7)
        self.lstm = nn.LSTM(12, 8, num_layers=2, bidirectional=True, dropout=0.1, batch_first=True)
        self.gru = nn.GRU(16, 8, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        states, _ = self.lstm(self.patches(x).flatten(2).transpose(1, 2))
        states, _ = self.gru(states)
        return self.head(states[:, -1])
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "net.py").write_text(NET)
    known = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(known)


def run(*arguments: str) -> None:
    get_command(main.cli).main(["model", *arguments], prog_name="dlsuite", standalone_mode=False)


def test_a_model_is_imported_proven_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run("import", "net.py:TinyNet", "--input", "1x28x28")
    assert "from file: equal (" in capsys.readouterr().out
    file = Path("tiny_net.model.json")
    found = model_files.read(file)
    assert found.origin is not None and found.origin.error is not None
    assert found.origin.error < 1e-9
    weights = load_file("tiny_net.safetensors")
    named = (*found.architecture.parameters(), *found.architecture.statistics())
    assert {each.name for each in named} == set(weights)
    MODELS.pop("tiny_net")
    run("show", str(file))
    shown = capsys.readouterr().out
    assert "body_3" in shown and "from file: equal" in shown
    assert "that of this worker has one group" in shown  # of PyTensor
    values = json.loads(file.read_text())
    assert list(values)[-1] == "layers"


def test_an_onnx_file_is_imported_and_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(every_mobile(), tmp_path)
    run("import", "net.onnx")
    shown = capsys.readouterr().out
    assert "from file: equal (not compared of ONNX Runtime" in shown
    assert "with the weights of the file the results do not depend on the inputs" in shown
    found = model_files.read(Path("net.model.json"))
    assert found.origin is not None and found.origin.changed_error is not None
    assert 0 < found.origin.changed_error < reading.TOLERANCES["onnx"][1]
    assert found.architecture.parameter_count == every_mobile().parameter_count


def test_layers_that_are_not_the_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the import: padding on the wrong side would be such."""
    read = reading.from_pytorch

    def wrong(*arguments: object, **options: object) -> Imported:
        found = read(*arguments, **options)
        kernel = found.own.weights["body_0.weight"]
        found.own.weights["body_0.weight"] = kernel[..., ::-1].copy()
        return found

    monkeypatch.setattr(reading, "from_pytorch", wrong)
    with pytest.raises(ParityFailed, match="are not the model of the file"):
        run("import", "net.py:TinyNet", "--input", "1x28x28")
    assert not list(Path().glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        (("net.py", "--input", "1x28x28"), UsageError, "names no class"),
        (("no.py:Net", "--input", "1x28x28"), UsageError, "no such file"),
        (("net.py:TinyNet", "--input", "1x28x28x1"), UsageError, "is no shape"),
        (("net.py:TinyNet", "--input", "1x28x28", "-o", "x.json"), UsageError, "does not end in"),
        (
            ("net.py:TinyNet", "--input", "1x28x28", "-o", "lenet.model.json"),
            UsageError,
            "is named 'lenet' already",
        ),
    ],
)
def test_wrong_arguments_are_usage_errors(
    arguments: tuple[str, ...], error: type[DlsuiteError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        run("import", *arguments)


def test_a_softmax_at_the_end_is_a_part_of_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    wrapped = "torch.log_softmax(self.head(self.body(x)), dim=1)"
    Path("net.py").write_text(NET.replace("self.head(self.body(x))", wrapped))
    run("import", "net.py:TinyNet", "--input", "1x28x28")
    shown = capsys.readouterr().out
    assert "from file: equal (" in shown and "the log_softmax at the end is left out" in shown
    assert model_files.read(Path("tiny_net.model.json")).architecture.layers[-1].kind == "dense"


def test_a_refused_model_leaves_nothing() -> None:
    Path("net.py").write_text(NET.replace("nn.ReLU6()", "nn.Softshrink()"))
    with pytest.raises(ImportRefused, match=r"Softshrink at body\.4"):
        run("import", "net.py:TinyNet", "--input", "1x28x28")
    assert not list(Path().glob("*.json"))


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "mobile.model.json"
    model = every_mobile()
    weights = {each.name: np.ones(each.shape, np.float32) for each in model.parameters()}
    model_files.write(path, model, None, weights)
    assert model_files.read(path).architecture == model
    found = model_files.read_weights(model_files.weights_path(path), model)
    assert set(found) == set(weights)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda values: values.update(format=9), "format 9"),
        (lambda values: values.update(name="A b"), "name: String should match"),
        (lambda values: values.update(more=1), "more: Extra"),
        (lambda values: values["layers"][0].update(kind="conv9d"), "no 'conv9d'"),
        (lambda values: values["layers"][0].update(out_channels=3), "cannot take an input"),
        (lambda values: values["layers"][0].pop("kernel"), "kernel"),
    ],
)
def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, edit: object, reason: str) -> None:
    path = tmp_path / "net.model.json"
    model_files.write(path, every_mobile(), None, None)
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))
    with pytest.raises(ManifestError, match=reason) as caught:
        model_files.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.verify
def test_a_recurrent_network_of_both_directions_is_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sum of the two biases of an LSTM is rounded to float32."""
    Path("net.py").write_text(RECURRENT)
    run("import", "net.py:Recurrent", "--input", "1x28x28")
    assert "from file: equal (" in capsys.readouterr().out
