"""Outcomes of steps, and a small model whose steps depend on everything that a state has."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from suite.datasets.inputs import Inputs
from suite.manifests.workloads import Adam
from suite.models.architecture import Architecture
from suite.models.layers import BatchNorm, Dense, Flatten
from suite.parity.tensors import Tensors
from suite.parity.tolerances import RULES
from suite.protocol.plan import Trial
from tests.conftest import made_up

FLOAT32 = RULES["float32"]


def tensors(update: float, *, loss: float = 1.0) -> Tensors:
    """Of a model with one weight tensor; its update is `update` in each of four values."""
    values = np.full(4, update)
    return {"loss": np.asarray(loss), "weights a": 1 + values, "updates a": values}


def with_adam(trial: Trial) -> Trial:
    """The trial with an optimizer that has slots and counts its steps."""
    adam = Adam(name="adam", learning_rate=0.1)
    return replace(trial, workload=trial.workload.model_copy(update={"optimizer": adam}))


def with_batch_norm(trial: Trial, folder: Path) -> Inputs:
    """Inputs of a small model with a batch norm, whose statistics are not those of a new model."""
    model = Architecture(
        name="norm",
        input_shape=(1, 28, 28),
        classes=10,
        layers=(
            BatchNorm(name="norm", channels=1),
            Flatten(name="flat"),
            Dense(name="classes", in_features=28 * 28, out_features=10),
        ),
    )
    weights = np.random.default_rng(5).normal(0, 0.1, model.parameter_count)
    np.save(folder / "weights.npy", weights.astype(np.float32))
    np.save(folder / "statistics.npy", np.array([3, 5], np.float32))
    return replace(
        made_up(trial.workload, folder / "made"),
        architecture=model,
        weights=folder / "weights.npy",
        statistics=folder / "statistics.npy",
    )
