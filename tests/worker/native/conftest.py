"""A worker in C++ and the reference answer the same samples."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.workloads import Workload
from suite.protocol import trial_file
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from suite.worker import host
from tests.conftest import made_up

Run = Callable[..., subprocess.CompletedProcess[str]]


def run(python: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The finished worker of the environment of `python`, on the trial in a folder."""
    return subprocess.run(
        [str(python), "-m", "suite.worker", str(folder)],
        env={"PYTHONPATH": str(VenvEngine().staged()), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=600,  # the first one compiles the worker
        check=False,
    )


@pytest.fixture
def worker() -> Run:
    """Runs the worker of a framework, in its environment, on the trial in a folder."""

    def run_worker(framework: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return run(VenvEngine().prepare(catalog.framework(framework), print).python, folder)

    return run_worker


@pytest.fixture
def task_folder(quick: Callable[..., Plan], tmp_path: Path) -> Callable[..., Path]:
    """Writes a trial on made-up samples: `framework`, the workload's `changes`, fields of Task."""
    usual = quick("pytorch").trials[0]

    def folder_of(framework: str, changes: dict[str, Any], **task: Any) -> Path:
        workload = Workload.model_validate(usual.workload.model_dump() | changes)
        variant = next(iter(catalog.framework(framework).variants))
        trial = replace(usual, framework=framework, variant=variant, workload=workload)
        inputs = made_up(workload, tmp_path / framework)
        folder = tmp_path / framework / "trial"
        trial_file.write(folder, Task(trial=trial, inputs=inputs, **task), cpus=host.cpus())
        return folder

    return folder_of


def answers_of(folder: Path) -> np.ndarray:
    """The answers (samples, classes) of a worker in mode parity of inference."""
    answers: np.ndarray = np.load(folder / "results" / "inference.npy")
    return answers


def events_of(reply: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The events that a worker wrote to standard output."""
    return [json.loads(line) for line in reply.stdout.splitlines()]
