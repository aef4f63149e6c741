"""Activations at 0, which a convolution of zeros with a bias of 0 meets exactly."""

from __future__ import annotations

import pytest

from suite.manifests import catalog
from suite.manifests.files import names
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.branches import Add
from suite.models.layers import (
    BatchNorm,
    Conv2d,
    Dense,
    GlobalAvgPool2d,
    Layer,
    LeakyRelu,
    Relu,
    Relu6,
)
from tests.parity.test_certificates import certify_of


@pytest.mark.verify
@pytest.mark.parametrize(
    "activation", [Relu(name="act"), Relu6(name="act"), LeakyRelu(name="act", slope=0.1)], ids=str
)
def test_the_gradients_at_0_are_the_same_in_every_framework(
    activation: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The border of a digit is one value: its patches are equal, and half of them are cut to 0."""
    inner = Conv2d(name="inner", in_channels=4, out_channels=4, kernel=(1, 1))
    model = Architecture(
        name="kinks",
        input_shape=(1, 28, 28),
        classes=10,
        layers=(
            Conv2d(
                name="conv", in_channels=1, out_channels=4, kernel=(4, 4), stride=(4, 4), bias=False
            ),
            BatchNorm(name="norm", channels=4),
            Relu(name="relu"),
            Add(name="add", branches=((), (inner, activation))),
            Conv2d(name="last", in_channels=4, out_channels=4, kernel=(3, 3)),
            GlobalAvgPool2d(name="pool"),
            Dense(name="classes", in_features=4, out_features=10),
        ),
    )
    monkeypatch.setitem(MODELS, "kinks", lambda: model)
    zoo = catalog.suite("zoo").workloads
    usual = next(each for each in zoo if each.model == "every_mobile")
    workload = usual.model_copy(update={"model": "kinks", "proof_steps": 2})
    found = certify_of((workload,), *names("framework"))
    assert len(found) > 7
    for name, certificate in found.items():
        assert certificate.proven, f"{name}: {certificate.reason}"
