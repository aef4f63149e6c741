"""Gradients that are 0 but for rounding, with the real frameworks.

A batch norm subtracts what the bias of an earlier one adds where only linear layers are between
them, as in the bottlenecks of MobileNetV2. So that bias has no effect and no gradient.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.datasets.inputs import Inputs
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.models.architecture import Architecture
from suite.models.branches import Add
from suite.models.layers import BatchNorm, Conv2d, Dense, GlobalAvgPool2d, Relu
from suite.parity.certificates import Certificate, certify
from suite.parity.tensors import ProofFailed
from suite.paths import WORKER
from suite.protocol.expansion import expand
from suite.protocol.plan import Trial
from suite.runner.frameworks import Frameworks
from suite.runner.selftest.faults import Fault
from tests.conftest import made_up

STEPS = 3
ZERO = "linear_norm.bias"
SMALL = "small1.weight"
SMALL_SHARE = 1e-5  # of the weights behind it, and so of its gradient
RIGHT = "named = {name: g.numpy() for name, g in zip(self._variables, gradients)}"


def fault(name: str, change: str) -> Fault:
    """A change of the gradients of TensorFlow, which is no part of the reference."""
    return Fault(
        name=name,
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right=RIGHT,
        wrong=f"{RIGHT}\n        {change}",
    )


DROPPED = fault("a small gradient that is dropped", f"named[{SMALL!r}] *= 0")
NOT_ZERO = fault("a gradient of 0 that is not 0", f"named[{ZERO!r}] += 1e-3")


def bottleneck() -> Architecture:
    def pointwise(name: str, inputs: int, outputs: int) -> Conv2d:
        return Conv2d(
            name=name, in_channels=inputs, out_channels=outputs, kernel=(1, 1), bias=False
        )

    small = (pointwise("small1", 8, 8), Relu(name="small_relu"), pointwise("small2", 8, 8))
    layers = (
        Conv2d(
            name="conv", in_channels=1, out_channels=8, kernel=(3, 3), stride=(2, 2), bias=False
        ),
        Add(name="add", branches=((), small)),
        pointwise("project", 8, 4),
        BatchNorm(name="linear_norm", channels=4),
        pointwise("expand", 4, 16),
        BatchNorm(name="norm", channels=16),
        Relu(name="relu"),
        GlobalAvgPool2d(name="pool"),
        Dense(name="classes", in_features=16, out_features=10),
    )
    return Architecture(name="bottleneck", input_shape=(1, 28, 28), classes=10, layers=layers)


def inputs_of(trial: Trial, folder: Path) -> Inputs:
    """Its inputs, whose weights `small2` are so small that the gradient of `small1` is too."""
    model = bottleneck()
    weights = model.initial_weights(5)
    start = 0
    for each in model.parameters():
        end = start + each.size
        if each.name == "small2.weight":
            weights[start:end] *= SMALL_SHARE
        start = end
    np.save(folder / "weights.npy", weights)
    np.save(folder / "statistics.npy", model.inference_statistics(5))
    return replace(
        made_up(trial.workload, folder / "made"),
        architecture=model,
        weights=folder / "weights.npy",
        statistics=folder / "statistics.npy",
    )


def certificate(framework: str, folder: Path, worker: Path = WORKER) -> Certificate:
    """The certificate of the bottleneck's first steps."""
    suite = catalog.suite("quick")
    plan = expand(suite, catalog.frameworks(), catalog.tracks(), only=[framework])
    trial = plan.trials[0]
    engine = VenvEngine(worker)
    found = certify(
        engine,
        [trial],
        Frameworks(engine, print).with_reference([framework]),
        inputs_of(trial, folder),
        work_dir=folder,
        notify=print,
        steps=STEPS,
        fresh=True,
    )[trial.trial_id]
    if isinstance(found, ProofFailed):
        raise found
    return found


@pytest.mark.verify
@pytest.mark.parametrize(
    "framework", (["pytorch", "tensorflow", "jax", "mxnet", "keras", "paddle"])
)
def test_a_gradient_of_zero_is_judged_on_the_scale_of_the_step_and_named(
    framework: str, tmp_path: Path
) -> None:
    found = certificate(framework, tmp_path)
    assert found.proven, found.reason
    assert {f"gradients {ZERO}", f"updates {ZERO}", "statistics norm.mean"} <= set(found.zeros)
    assert f"gradients {SMALL}" not in found.zeros
    assert found.errors[0][f"gradients {ZERO}"] < 1e-5


@pytest.mark.verify
@pytest.mark.parametrize(
    ("fault", "tensor"), [(DROPPED, f"gradients {SMALL}"), (NOT_ZERO, f"gradients {ZERO}")]
)
def test_a_small_gradient_that_is_dropped_and_a_zero_that_is_not_are_found(
    fault: Fault, tensor: str, tmp_path: Path
) -> None:
    found = certificate("tensorflow", tmp_path, fault.plant(tmp_path / "worker"))
    assert not found.proven and tensor in str(found.reason)
