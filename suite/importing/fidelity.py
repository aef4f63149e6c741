"""Whether imported layers are the model of the file: their logits in the float64 reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets.formats import prepared, synthetic
from suite.datasets.inputs import Inputs
from suite.datasets.obtain import joined
from suite.engines.base import Engine, Prepared
from suite.errors import ParityFailed
from suite.importing.reading import Imported, Results
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest, Normalize
from suite.manifests.tracks import EQUAL
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.models.architecture import Architecture
from suite.parity.errors import ROUNDING, relative_error
from suite.parity.prover import Prover
from suite.parity.reference import Reference
from suite.parity.tensors import ProofFailed
from suite.parity.workers import LOWERINGS
from suite.paths import digest, sha256
from suite.protocol.plan import Trial


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """How well the layers agree with the file: relative L2 errors of the logits.

    With changed weights, the error is relative to how much the logits differ between the inputs.
    `error` is None where the logits with the file's weights do not depend on the inputs.
    """

    error: float | None
    changed_error: float


def fidelity_of(
    imported: Imported,
    engine: Engine,
    prepared_of: dict[str, Prepared],
    work_dir: Path,
    notify: Notify,
) -> Fidelity:
    """Compare the layers' logits with those of the file, with its weights and with changed ones.

    Both lowerings of the reference compute them. Raise ParityFailed where the lowerings disagree,
    or an error is above the tolerance.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for name, results in (("own", imported.own), ("changed", imported.changed)):
        if name == "own" and not _depends_on_inputs(results.logits):
            continue
        folder = work_dir / f"fidelity-{name}"  # the trials of both have the same names
        inputs = _inputs(imported.architecture, results, folder / "inputs")
        prover = Prover(
            engine=engine,
            prepared=prepared_of,
            inputs=inputs,
            steps=1,
            work_dir=folder,
            notify=notify,
        )
        logits = _logits(imported.architecture, len(results.inputs), prover)
        found[name] = _ended(logits, imported.ending)
    own = relative_error(found["own"], imported.own.logits) if "own" in found else None
    fidelity = Fidelity(
        error=own,
        changed_error=_error_of_differences(found["changed"], imported.changed.logits),
    )
    within = own is None or own <= imported.tolerance
    if not within or not fidelity.changed_error <= imported.changed_tolerance:
        raise ParityFailed(
            f"the layers of {imported.architecture.name} are not the model of the file: their"
            f" logits differ by {'-' if own is None else f'{own:.1e}'} of its own (tolerance"
            f" {imported.tolerance:.0e}), with changed weights by {fidelity.changed_error:.1e}"
            f" ({imported.changed_tolerance:.0e})",
            hint="report the model: an operation has another meaning than its layer",
        )
    return fidelity


def _ended(logits: NDArray[np.float64], ending: str | None) -> NDArray[np.float64]:
    """The logits with the operation at the end of the file."""
    if ending is None:
        return logits
    if ending == "sigmoid":
        sigmoid: NDArray[np.float64] = 1 / (1 + np.exp(-logits))
        return sigmoid
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logarithm: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.exp(logarithm) if ending == "softmax" else logarithm


def _error_of_differences(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """The error relative to the differences of the logits from their mean over the inputs.

    What does not depend on the input, such as a bias, is no part of the scale. Infinite where the
    logits depend on the input by no more than rounding: then they show nothing.
    """
    if not _depends_on_inputs(expected):
        return math.inf
    differences = expected - expected.mean(axis=0)
    shift = found - expected
    return relative_error(differences + shift, differences)


def _depends_on_inputs(logits: NDArray[Any]) -> bool:
    """Whether the logits differ between the inputs by more than rounding."""
    differences = logits - logits.mean(axis=0)
    return bool(np.linalg.norm(differences) > ROUNDING * np.linalg.norm(logits))


def _logits(architecture: Architecture, samples: int, prover: Prover) -> NDArray[np.float64]:
    """The logits of both lowerings of the reference; ParityFailed where they disagree."""
    framework, variant = LOWERINGS[0]
    trial = Trial(
        framework=framework,
        variant=variant,
        track=EQUAL,
        runtime=catalog.runtime_settings(framework, EQUAL, "cpu"),
        device="cpu",
        workload=_workload(architecture, samples),
        seed=1,
    )
    parts = [prover.inputs.sha256, str(architecture.to_json()), prover.engine.worker_sha256]
    reference = Reference(prover=prover, trial=trial, key=digest(parts))
    try:
        logits = reference.tensors[0]["logits"]
        return logits.reshape(samples, *architecture.positions, architecture.classes)
    except ProofFailed as failed:
        raise ParityFailed(
            f"{architecture.name}: {failed}", hint="dlsuite --debug model ..."
        ) from None


def _workload(architecture: Architecture, samples: int) -> Workload:
    return Workload(
        model=architecture.name,
        dataset=synthetic.NAME,
        mode="infer",
        batch_size=samples,
        scenario="offline",
        query_samples=samples,
    )


def _inputs(model: Architecture, results: Results, folder: Path) -> Inputs:
    """The weights and inputs in the form of a workload's."""
    samples = len(results.inputs)
    data = folder / "data"
    data.mkdir(parents=True)
    labels = np.zeros((samples, *model.positions), np.int32)
    for split in ("train", "test"):
        np.save(data / f"{split}_inputs.npy", results.inputs)
        np.save(data / f"{split}_labels.npy", labels)
    prepared.write(data, synthetic.NAME, "random inputs")
    paths = {name: folder / f"{name}.npy" for name in ("weights", "statistics", "order")}
    for name, parts in (("weights", model.parameters()), ("statistics", model.statistics())):
        np.save(paths[name], joined(results.weights, parts))
    np.save(paths["order"], np.arange(samples, dtype=np.int32)[None])
    channels = model.input_shape[0] if len(model.input_shape) == 3 else int(not model.takes_tokens)
    dataset = DatasetManifest(
        name=synthetic.NAME,
        title="Random inputs",
        format="synthetic",
        shape=model.input_shape,
        classes=model.classes,
        normalize=Normalize(mean=(0.0,) * channels, std=(1.0,) * channels),
        samples={"train": samples, "test": samples},
    )
    hashes = [sha256(path) for path in (*paths.values(), data / "test_inputs.npy")]
    return Inputs(
        architecture=model, dataset=dataset, data=data, sha256=digest(hashes), origin="", **paths
    )
