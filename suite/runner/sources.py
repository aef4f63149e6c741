"""What others need to check a run, copied into its folder: worker, locks, models and datasets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.engines.base import Prepared
from suite.manifests import weight_files
from suite.paths import tree_files, write_atomically
from suite.protocol.plan import Work

WORKER_FOLDER, LOCKS_FOLDER, INPUTS_FOLDER = "worker", "locks", "inputs"


def write(folder: Path, worker: Path, prepared: Iterable[Prepared]) -> None:
    """Write `worker/` and `locks/` into a run's folder; raise OSError where that fails."""
    for source in tree_files(worker):
        copy = folder / WORKER_FOLDER / source.relative_to(worker)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    (folder / LOCKS_FOLDER).mkdir(exist_ok=True)
    for framework in prepared:
        if framework.lock is not None:
            write_atomically(lock_path(folder, framework.framework), framework.lock)


def describe(folder: Path, by_work: Mapping[Work, Inputs]) -> None:
    """Write `inputs/` into a run's folder: each model, and the dataset in the form that it takes.

    So a checkout that lacks the model can check the run. Weights of the user are copied to
    `weights/`. Raise OSError where that fails.
    """
    (folder / INPUTS_FOLDER).mkdir(exist_ok=True)
    for (workload, _), inputs in by_work.items():
        if workload.weights_sha256:
            weight_files.copy_into(folder, workload.weights_sha256)
        values = {
            "architecture": inputs.architecture.to_json(),
            "dataset": inputs.dataset.model_dump(mode="json"),
            "origin": inputs.origin,
        }
        path = inputs_path(folder, workload.model, workload.dataset)
        write_atomically(path, json.dumps(values) + "\n")


def inputs_path(folder: Path, model: str, dataset: str) -> Path:
    """The description of a model and its dataset in a run's folder."""
    return folder / INPUTS_FOLDER / f"{model}-{dataset}.json"


def lock_path(folder: Path, framework: str) -> Path:
    """The copy of a framework's lock in a run's folder."""
    return folder / LOCKS_FOLDER / f"{framework}.txt"
