"""The training steps of the worker in C++, compared with PyTorch's in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Run, events_of

STEPS = 3
USUAL = {"dataset": "synthetic", "batch_size": 16, "epochs": 0}
OPTIMIZERS = ("adam", "sgd", "momentum", "adamw", "rmsprop")
# The quantities that a step changes, and by which relative error they may differ.
TOLERANCES = {"logits": 1e-5, "inference": 1e-5, "gradients": 1e-4, "loss": 1e-5, "weights": 1e-4}


@pytest.mark.verify
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_its_steps_are_those_of_the_reference(
    optimizer: str, worker: Run, task_folder: Callable[..., Path]
) -> None:
    changes = USUAL | {"model": "lenet", "optimizer": {"name": optimizer, "learning_rate": 0.001}}
    folders = {}
    for framework, precision in {"onednn": "float32", "pytorch": "float64"}.items():
        folder = task_folder(framework, changes, mode="parity", precision=precision, steps=STEPS)
        reply = worker(framework, folder)
        assert reply.returncode == 0, reply.stdout + reply.stderr
        folders[framework] = folder / "results"
    for step in range(STEPS):
        for quantity, tolerance in TOLERANCES.items():
            name = f"step{step:02d}_{quantity}.npy"
            found, expected = (np.load(folders[each] / name) for each in ("onednn", "pytorch"))
            error = np.linalg.norm(found - expected)
            assert error <= tolerance * np.linalg.norm(expected), name


@pytest.mark.verify
def test_a_layer_that_it_cannot_train_is_a_failure_with_a_message(
    worker: Run, task_folder: Callable[..., Path]
) -> None:
    changes: dict[str, Any] = USUAL | {"model": "every_layer"}
    folder = task_folder("onednn", changes, mode="parity", steps=1)
    reply = worker("onednn", folder)
    last = events_of(reply)[-1]
    assert reply.returncode == 1 and last["error_class"] == "NotImplementedError"
    assert last["message"] == "the oneDNN worker cannot train the layer batch_norm"
