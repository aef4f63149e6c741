"""Obtains the inputs of a workload: prepares or generates its dataset, and writes its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets import library
from suite.datasets.formats import prepared, synthetic
from suite.datasets.inputs import Inputs
from suite.errors import DataError
from suite.manifests import user_weights
from suite.manifests.datasets import SPLITS, DatasetManifest
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.models import MODELS
from suite.models.layer import Parameter
from suite.paths import digest, sha256


def obtain(workload: Workload, *, seed: int, folder: Path, notify: Notify) -> Inputs:
    """Prepare or generate the dataset, and write the inputs into `folder`.

    Raise DataError where the dataset is unavailable or damaged.
    """
    dataset = library.of(workload)
    if dataset.format == "synthetic":
        # Models with inputs of the same kind, and targets of the same loss, share the data.
        shape = "x".join(map(str, dataset.shape))
        if dataset.vocabulary is not None:
            shape += f"-of-{dataset.vocabulary}-padding-{dataset.padding_id}"
        sizes = "-".join(str(dataset.samples[split]) for split in SPLITS)
        targets = f"{dataset.classes}-{dataset.loss}"
        data = folder.parent / f"synthetic-{shape}-{targets}-{sizes}-seed{seed}"
        if not data.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            synthetic.write(dataset, data, seed)
    else:
        data = library.ready(dataset, notify)
    if workload.input == "loader":
        _need_images(dataset, data)
    described = library.describe(dataset)
    _note_classes(workload, described, notify)
    return make(workload, described, data=data, seed=seed, folder=folder)


def _note_classes(workload: Workload, dataset: DatasetManifest, notify: Notify) -> None:
    """Say where a user's data have fewer classes than the model; more are refused before."""
    classes = MODELS[workload.model]().classes
    of_user = dataset.format in ("image_folder", "own") and dataset.loss == "cross_entropy"
    if of_user and dataset.classes < classes:
        notify(
            f"{dataset.name} has {dataset.classes:,} classes, {workload.model} {classes:,}:"
            " its other outputs are never a label"
        )


def _need_images(dataset: DatasetManifest, data: Path) -> None:
    """Raise DataError where the dataset has no photographs for a loader."""
    if dataset.format != "image_folder":
        raise DataError(
            f"`input: loader` needs a folder of photographs, {dataset.name} is not one",
            hint="give the workload `input: disk` or `host`",
        )
    described = prepared.read(data)
    source = described.source_folder if described else None
    if source is None or not source.is_dir():
        raise DataError(
            f"{source}, from which {dataset.name} was prepared, no longer exists",
            hint=f"restore it, or {library.command(dataset)}",
        )


def make(
    workload: Workload, dataset: DatasetManifest, *, data: Path, seed: int, folder: Path
) -> Inputs:
    """Write weights.npy, statistics.npy and order.npy (docs/reference/protocol.md) into `folder`.

    `data` is the folder of a prepared dataset.
    """
    architecture = MODELS[workload.model]()
    folder.mkdir(parents=True, exist_ok=True)
    weights, order = folder / "weights.npy", folder / "order.npy"
    statistics = folder / "statistics.npy"
    inference = workload.mode == "infer"
    if workload.weights_sha256:
        given = user_weights.read(workload.weights_sha256, architecture)
        np.save(weights, joined(given, architecture.parameters()))
        np.save(statistics, joined(given, architecture.statistics()))
    else:
        drawn = architecture.inference_weights if inference else architecture.initial_weights
        np.save(weights, drawn(seed))
        np.save(statistics, architecture.inference_statistics(seed))
    generator = np.random.default_rng(seed)
    samples, of_epoch = dataset.samples["train"], workload.epoch_samples
    epochs = range(max(1, workload.epochs))
    permutations = [generator.permutation(samples)[:of_epoch] for _ in epochs]
    np.save(order, np.stack(permutations).astype(np.int32))
    described = prepared.read(data)
    assert described is not None  # `data` is the folder of a prepared dataset
    hashes = [sha256(weights), sha256(order), described.fingerprint]
    if inference:
        hashes.append(sha256(statistics))
    return Inputs(
        architecture=architecture,
        dataset=dataset,
        data=data,
        images=described.source_folder,
        weights=weights,
        averages=weights if "ema_decay" in workload.recipe else None,
        statistics=statistics,
        order=order,
        sha256=digest(hashes),
        origin=described.origin,
    )


def joined(given: Mapping[str, NDArray[Any]], named: Iterable[Parameter]) -> NDArray[np.float32]:
    """The values of all tensors in their order, one after the other."""
    parts = [given[each.name].ravel().astype(np.float32) for each in named]
    return np.concatenate([*parts, np.zeros(0, np.float32)])
