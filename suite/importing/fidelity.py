"""Whether imported layers are the model of the file: their logits in the float64 reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from suite.datasets.formats import prepared, synthetic
from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.errors import ParityFailed
from suite.importing.reading import Imported
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest, Normalize
from suite.manifests.tracks import EQUAL
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.parity.errors import relative_error
from suite.parity.prover import Prover
from suite.parity.reference import Reference
from suite.parity.tensors import ProofFailed
from suite.parity.workers import LOWERINGS
from suite.paths import digest, sha256
from suite.protocol.plan import Trial


def error_of(
    imported: Imported,
    engine: Engine,
    prepared_of: dict[str, Prepared],
    work_dir: Path,
    notify: Notify,
) -> float:
    """The relative L2 error of the layers' logits, with the file's weights and its inputs.

    Both lowerings of the reference compute them. Raise ParityFailed where the lowerings disagree,
    or the error is above the tolerance.
    """
    inputs = _inputs(imported, work_dir / "fidelity")
    framework, variant = LOWERINGS[0]
    trial = Trial(
        framework=framework,
        variant=variant,
        track=EQUAL,
        runtime=catalog.runtime_settings(framework, EQUAL, "cpu"),
        device="cpu",
        workload=_workload(imported),
        seed=1,
    )
    prover = Prover(
        engine=engine,
        prepared=prepared_of,
        inputs=inputs,
        steps=1,
        work_dir=work_dir,
        notify=notify,
    )
    architecture = imported.architecture
    parts = [inputs.sha256, str(architecture.to_json()), engine.worker_sha256]
    reference = Reference(prover=prover, trial=trial, key=digest(parts))
    try:
        found = reference.tensors[0]["logits"]
    except ProofFailed as failed:
        raise ParityFailed(
            f"{architecture.name}: {failed}", hint="dlsuite --debug model ..."
        ) from None
    error = relative_error(found, imported.logits)
    if not error <= imported.tolerance:
        raise ParityFailed(
            f"the layers of {architecture.name} are not the model of the file: their logits differ"
            f" by {error:.1e} of its own, the tolerance is {imported.tolerance:.0e}",
            hint="report the model: an operation has another meaning than its layer",
        )
    return error


def _workload(imported: Imported) -> Workload:
    samples = len(imported.inputs)
    return Workload(
        model=imported.architecture.name,
        dataset=synthetic.NAME,
        mode="infer",
        batch_size=samples,
        scenario="offline",
        query_samples=samples,
    )


def _inputs(imported: Imported, folder: Path) -> Inputs:
    """The file's weights and inputs in the form of a workload's."""
    model, samples = imported.architecture, len(imported.inputs)
    data = folder / "data"
    data.mkdir(parents=True)
    for split in ("train", "test"):
        np.save(data / f"{split}_inputs.npy", imported.inputs)
        np.save(data / f"{split}_labels.npy", np.zeros(samples, np.int32))
    prepared.write(data, synthetic.NAME, "random inputs")
    paths = {name: folder / f"{name}.npy" for name in ("weights", "statistics", "order")}
    for name, parts in (("weights", model.parameters()), ("statistics", model.statistics())):
        values = [imported.weights[each.name].ravel() for each in parts]
        np.save(paths[name], np.concatenate([*values, np.zeros(0)]).astype(np.float32))
    np.save(paths["order"], np.arange(samples, dtype=np.int32)[None])
    channels = model.input_shape[0] if len(model.input_shape) == 3 else 1
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
