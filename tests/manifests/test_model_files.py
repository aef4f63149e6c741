"""Models in files of the user: layers in Python, and files that must be imported first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.errors import ManifestError, UsageError
from suite.manifests import models
from suite.models import MODELS
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions

NET = """
from suite.models.architecture import Architecture
from suite.models.layers import Dense, Flatten


def my_net() -> Architecture:
    layers = (
        Flatten(name="flatten"),
        Dense(name="output", in_features=784, out_features=10),
    )
    return Architecture(name="my_net", input_shape=(1, 28, 28), classes=10, layers=layers)
"""
SECOND = NET.replace("my_net", "other_net").partition("\n\n\n")[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    models.problem.cache_clear()  # it knows a model by its name
    known = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(known)


def models_of(*names: str) -> set[str]:
    plan = plan_of("zoo", RunOptions(frameworks=("pytorch",), models=names), device="cpu")
    return {trial.workload.model for trial in plan.trials}


@pytest.mark.parametrize("name", ["net.py", "./net.py", "net.py:my_net"])
def test_layers_in_python_are_a_model(name: str) -> None:
    Path("net.py").write_text(NET)
    assert models_of(name) == {"my_net"}
    assert models_of(name, name) == {"my_net"}


def test_one_of_several_models_in_a_file_is_named() -> None:
    Path("net.py").write_text(f"{NET}\n\n{SECOND}")
    assert models_of("net.py:other_net") == {"other_net"}
    with pytest.raises(ManifestError, match=r"one function .* it has my_net, other_net") as caught:
        models_of("net.py")
    assert caught.value.hint == "--model net.py:my_net"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import torch_that_is_not_here", r"net\.py: net\.py:1: ModuleNotFoundError"),
        ("def broken(:", r"net\.py: net\.py:1: SyntaxError"),
        ("class Net: pass", "it has none"),
        (NET.replace("784", "783"), "layer 'output' cannot take an input of shape"),
        (NET.replace("return Architecture", "return 3 #"), "int, not Architecture"),
    ],
)
def test_a_file_without_a_model_is_one_line(text: str, reason: str) -> None:
    Path("net.py").write_text(text)
    with pytest.raises(ManifestError, match=reason) as caught:
        models_of("net.py")
    assert "\n" not in str(caught.value) and "net.py" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["net.onnx", "folder/net.keras", "net.pt"])
def test_a_file_of_another_program_is_imported_first(name: str) -> None:
    with pytest.raises(ManifestError, match="is not imported yet") as caught:
        models_of(name)
    assert f"dlsuite model import {name}" in str(caught.value.hint)


def test_a_missing_file_is_named() -> None:
    with pytest.raises((ManifestError, UsageError), match=r"net\.py: .*No such file"):
        models_of("net.py")
