"""The answers of the workers in C++, compared with PyTorch's in float64."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.engines.venv import environments
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.worker import nvidia

from .conftest import Run, answers_of, events_of, run

INFERRED = "inference"
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


@pytest.fixture
def answers(worker: Run, task_folder: Callable[..., Path]) -> Callable[..., np.ndarray]:
    """The answers of a framework for a model on made-up samples."""

    def answers_for(framework: str, model: str, precision: str) -> np.ndarray:
        workload = INFERENCE | {"model": model}
        folder = task_folder(framework, workload, mode="parity", precision=precision)
        reply = worker(framework, folder)
        assert reply.returncode == 0, reply.stdout + reply.stderr
        return answers_of(folder)

    return answers_for


@pytest.mark.verify
@pytest.mark.parametrize("model", ["lenet", "every_layer", "every_sequence"])
def test_its_answers_are_those_of_the_reference(
    model: str, answers: Callable[..., np.ndarray]
) -> None:
    """With running statistics that are not those of a new model."""
    found, expected = answers("onednn", model, "float32"), answers("pytorch", model, "float64")
    assert found.shape == (SAMPLES, 10)
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def test_timed_queries_are_reported_with_the_answers_that_callers_got(
    worker: Run, task_folder: Callable[..., Path]
) -> None:
    measure = Measure(block_s=0.01, max_warmup_blocks=2, min_query_s=0.05, min_queries=100)
    folder = task_folder("onednn", INFERENCE | {"model": "lenet"}, mode="infer", measure=measure)
    (event,) = (each for each in events_of(worker("onednn", folder)) if each["event"] == INFERRED)
    assert event["loadgen"] == "own timestamps"
    assert event["queries"] >= 100 and event["samples"] == 8 * event["queries"]
    assert event["min_s"] <= event["percentiles_s"]["50"] <= event["max_s"]
    logged = folder / "results" / "closing"
    samples, logits = (np.load(logged / f"answers_{name}.npy") for name in ("samples", "logits"))
    assert logits.shape == (len(samples), 10) and 0 <= samples.min() <= samples.max() < SAMPLES
    for sample in range(SAMPLES):  # a sample has the same answer in every query
        own = logits[samples == sample]
        assert np.allclose(own, own[:1], rtol=0, atol=1e-5)  # rounding depends on its place


def test_a_scenario_that_it_lacks_is_a_failure_with_a_message(
    worker: Run, task_folder: Callable[..., Path]
) -> None:
    folder = task_folder("onednn", INFERENCE | {"model": "lenet"}, mode="parity")
    values = json.loads((folder / "trial.json").read_text())
    (folder / "trial.json").write_text(json.dumps(values | {"scenario": "burst"}))
    reply = worker("onednn", folder)
    last = events_of(reply)[-1]
    assert reply.returncode == 1 and last["event"] == "failed"
    assert last["error_class"] == "NotImplementedError"
    assert last["message"] == "the worker has no scenario burst"


@pytest.mark.verify  # the search takes a quarter of a minute
def test_a_server_gets_queries_at_the_highest_rate_within_the_bound(
    worker: Run, task_folder: Callable[..., Path]
) -> None:
    measure = Measure(block_s=0.01, max_warmup_blocks=2, min_query_s=0.2, min_queries=100)
    changes = {"model": "lenet", "scenario": "server", "batch_size": 1, "latency_bound_s": 0.05}
    folder = task_folder("onednn", INFERENCE | changes, mode="infer", measure=measure)
    events = events_of(worker("onednn", folder))
    tried = [each for each in events if each["event"] == "rate"]
    timed = next(each for each in events if each["event"] == INFERRED)
    assert len(tried) > 7 and timed["rate_per_s"] == tried[-1]["rate_per_s"]
    assert all(each["holds"] == (each["p99_s"] <= 0.05) for each in tried)
    assert timed["samples"] >= 100
    assert timed["samples_per_s"] == pytest.approx(timed["samples"] / timed["duration_s"])


@pytest.mark.verify
def test_cudnn_compiles_and_names_the_missing_driver(task_folder: Callable[..., Path]) -> None:
    if nvidia.find().gpus:
        pytest.skip("there is a GPU")
    folder = task_folder("cudnn", INFERENCE | {"model": "lenet"}, mode="parity")
    values = json.loads((folder / "trial.json").read_text())
    (folder / "trial.json").write_text(json.dumps(values | {"device": "cuda:0"}))
    python = environments.ready(catalog.framework("cudnn"), print, kind="cuda").python
    reply = run(python, folder)
    last = events_of(reply)[-1]
    assert reply.returncode == 1 and last["event"] == "failed"
    assert "CUDA driver is missing" in last["message"]
