"""Trials of a small image on a real engine."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from suite.engines.attempt import Attempt, OnEvent, attempt
from suite.engines.base import WorkerRun
from suite.engines.docker.engine import DockerEngine
from tests.conftest import TINY, Tiny


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a trial's folder with its script and all the files that a trial refers to."""

    def make(script: str) -> Path:
        trial = tmp_path / "trial"
        (trial / "results").mkdir(parents=True)
        data = tmp_path / "data"
        data.mkdir()
        (data / "train_inputs.npy").write_bytes(b"pixels")
        for name in ("weights", "statistics", "order"):
            np.save(tmp_path / f"{name}.npy", np.arange(3))
        paths = {
            "data": str(data),
            "weights": str(tmp_path / "weights.npy"),
            "statistics": str(tmp_path / "statistics.npy"),
            "order": str(tmp_path / "order.npy"),
            "results": str(trial / "results"),
        }
        (trial / "trial.json").write_text(
            json.dumps({"paths": paths, "script": script, "environment": {"TRACK": "equal"}})
        )
        return trial

    return make


@pytest.fixture
def run(
    tiny: Tiny, folder: Callable[[str], Path], tmp_path: Path, home: Path
) -> Callable[..., Attempt]:
    """Runs a script in a container of the small image, on an engine that is already entered.

    A second call runs the script of the first again.
    """

    def run_script(
        engine: DockerEngine,
        script: str,
        deadline_s: float = 60,
        on_event: OnEvent = lambda event: None,
        name: str | None = None,
    ) -> Attempt:
        trial, log = tmp_path / "trial", tmp_path / "log"
        trial = trial if trial.exists() else folder(script)
        worker = WorkerRun(
            prepared=engine.prepare(TINY, lambda text: None),
            folder=trial,
            name=name or f"test-{os.getpid()}-{uuid.uuid4().hex[:6]}",
            log=log,
            deadline_s=deadline_s,
        )
        return attempt(engine.run, worker, on_event)

    return run_script
