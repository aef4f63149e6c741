from collections.abc import Iterator
from dataclasses import replace

import pytest

from suite.errors import ManifestError
from suite.manifests import models
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.layers import BatchNorm, Conv2d, Dense, Flatten, Layer, Relu
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions

CONV = Conv2d(name="conv", in_channels=1, out_channels=4, kernel=(3, 3), padding=(1, 1))
NORM = BatchNorm(name="norm", channels=4)
END = (Flatten(name="flatten"), Dense(name="output", in_features=3136, out_features=10))


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    models.problem.cache_clear()
    yield
    models.problem.cache_clear()


def mine(monkeypatch: pytest.MonkeyPatch, *layers: Layer, name: str = "mine") -> str | None:
    """What is wrong with a model of these layers."""
    model = Architecture(name=name, input_shape=(1, 28, 28), classes=10, layers=layers)
    monkeypatch.setitem(MODELS, "mine", lambda: model)
    return models.problem("mine")


def test_a_correct_model_has_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mine(monkeypatch, CONV, NORM, Relu(name="relu"), *END) is None


@pytest.mark.parametrize(
    ("layers", "problem"),
    [
        ((CONV, Relu(name="conv"), *END), "two layers are named 'conv'"),
        ((CONV, Relu(name="re.lu"), *END), "the name of layer 're.lu' contains a dot"),
        (
            END,
            "layer 'output' cannot take an input of shape (784,):"
            " Dense(name='output', in_features=3136, out_features=10, bias=True)",
        ),
    ],
)
def test_each_mistake_is_named(
    monkeypatch: pytest.MonkeyPatch, layers: tuple[Layer, ...], problem: str
) -> None:
    assert str(mine(monkeypatch, *layers)).startswith(problem)


def test_the_architecture_has_the_name_of_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mine(monkeypatch, CONV, *END, name="other")
    assert problem == "its architecture is named 'other', unlike its function"


def test_a_wrong_model_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    lenet = MODELS["lenet"]()

    def lenet_again() -> Architecture:
        return replace(lenet, name="lenet", layers=lenet.layers[:-1])

    lenet_again.__module__ = "suite.models.lenet"
    monkeypatch.setitem(MODELS, "lenet", lenet_again)
    with pytest.raises(ManifestError, match=r"^model lenet: lenet ends in shape") as caught:
        plan_of("quick", RunOptions(), device="cpu")
    assert caught.value.hint == "correct suite/models/lenet.py"
