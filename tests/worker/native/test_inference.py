"""The answers of the workers in C++, compared with PyTorch's in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Run, answers_of, events_of

SAMPLES = 13  # not a multiple of the batch size: the last call is filled
INFERENCE: dict[str, Any] = {
    "dataset": "synthetic",
    "mode": "infer",
    "scenario": "multi_stream",
    "batch_size": 8,
    "query_samples": SAMPLES,
    "optimizer": None,
    "epochs": 0,
}


@pytest.mark.parametrize("model", ["lenet", "every_layer", "every_sequence"])
def test_its_answers_are_those_of_the_reference(
    model: str, worker: Run, task_folder: Callable[..., Path]
) -> None:
    workload = INFERENCE | {"model": model}
    precisions = {"onednn": "float32", "pytorch": "float64"}
    found = {}
    for framework, precision in precisions.items():
        folder = task_folder(framework, workload, mode="parity", precision=precision)
        reply = worker(framework, folder)
        assert reply.returncode == 0, reply.stdout + reply.stderr
        found[framework] = answers_of(folder)
    assert found["onednn"].shape == (SAMPLES, 10)
    error = np.linalg.norm(found["onednn"] - found["pytorch"]) / np.linalg.norm(found["pytorch"])
    assert error < 1e-5
