"""Weights of the user become the initial weights of a workload."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from suite.datasets import obtain
from suite.datasets.formats import synthetic
from suite.datasets.inputs import Inputs
from suite.errors import DataError, ManifestError, UsageError
from suite.manifests import model_files, weight_files
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.protocol.plan import Plan
from suite.runner import sources
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def saved(model: Architecture, name: str = "net") -> dict[str, np.ndarray]:
    """Write NAME.safetensors with random weights, which are returned."""
    random = np.random.default_rng(3)
    named = (*model.parameters(), *model.statistics())
    weights = {each.name: random.random(each.shape, np.float32) for each in named}
    model_files.write(Path(f"{name}.model.json"), model, None, weights)
    return weights


def planned(suite: str = "zoo", **options: object) -> Plan:
    options = {"models": ("every_layer",), "weights": Path("net.safetensors"), **options}
    return plan_of(suite, RunOptions(frameworks=("pytorch",), **options), device="cpu")


def inputs_of(plan: Plan, folder: Path) -> Inputs:
    workload = plan.trials[0].workload.model_copy(update={"dataset": synthetic.NAME})
    return obtain.obtain(workload, seed=1, folder=folder / "inputs", notify=print)


def test_training_and_inference_start_from_the_weights_in_a_file(tmp_path: Path) -> None:
    model = MODELS["every_layer"]()
    weights = saved(model)
    plan = planned()
    assert len({each.workload.weights_sha256 for each in plan.trials}) == 1
    Path("net.safetensors").unlink()  # they are kept
    found = inputs_of(plan, tmp_path)
    values = np.load(found.weights)
    expected = np.concatenate([weights[each.name].ravel() for each in model.parameters()])
    assert values.dtype == np.float32 and np.array_equal(values, expected)
    statistics = np.concatenate([weights[each.name].ravel() for each in model.statistics()])
    assert np.array_equal(np.load(found.statistics), statistics)


def test_the_folder_of_a_run_has_the_weights(tmp_path: Path) -> None:
    saved(MODELS["every_layer"]())
    plan = planned()
    workload = plan.trials[0].workload
    digest = str(workload.weights_sha256)
    inputs = inputs_of(plan, tmp_path)
    sources.describe(tmp_path, {(workload, 1): inputs})
    (kept,) = (tmp_path / "home/weights").iterdir()
    kept.unlink()
    with pytest.raises(DataError, match="are not here"):
        inputs_of(plan, tmp_path / "again")
    weight_files.restore(tmp_path, digest)
    assert np.array_equal(
        np.load(inputs_of(plan, tmp_path / "again").weights), np.load(inputs.weights)
    )
    (tmp_path / "weights" / f"{digest}.safetensors").write_bytes(b"changed")
    kept.unlink()
    weight_files.restore(tmp_path, digest)
    assert not kept.exists()


def test_other_weights_are_another_workload(tmp_path: Path) -> None:
    saved(MODELS["every_layer"]())
    with_weights = planned().trials[0]
    assert with_weights.workload != planned(weights=None).trials[0].workload


def test_weights_of_another_model_and_for_several_models_are_refused() -> None:
    saved(MODELS["lenet"]())
    with pytest.raises(ManifestError, match=r"conv1\.weight has shape"):
        planned()
    with pytest.raises(UsageError, match="one model, not of lenet, every_layer"):
        planned(models=("every_layer", "lenet"))


def test_weights_that_are_no_longer_kept_are_named(tmp_path: Path) -> None:
    saved(MODELS["every_layer"]())
    plan = planned()
    (kept,) = (tmp_path / "home/weights").iterdir()
    kept.write_bytes(b"changed")
    with pytest.raises(DataError, match="are not here, or have changed"):
        inputs_of(plan, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "value", "reason"),
    [
        (np.float32, np.nan, "no finite float32"),
        (np.float64, 1e300, "no finite float32"),
        (np.int64, 1, "int64"),
        (np.complex64, 1, "complex64"),
    ],
)
def test_weights_that_float32_cannot_hold_are_refused(
    dtype: type, value: float, reason: str
) -> None:
    model = MODELS["lenet"]()
    named = {each.name: np.full(each.shape, value, dtype) for each in model.parameters()}
    save_file(named, "net.safetensors")
    with pytest.raises(ManifestError, match=f"net.safetensors: .*{reason}"):
        model_files.read_weights(Path("net.safetensors"), model)


def test_a_type_that_numpy_lacks_is_named() -> None:
    model = MODELS["lenet"]()
    header: dict[str, object] = {}
    end = 0
    for each in model.parameters():
        start, end = end, end + 2 * int(np.prod(each.shape))
        entry = {"dtype": "BF16", "shape": each.shape, "data_offsets": [start, end]}
        header[each.name] = entry
    text = json.dumps(header).encode()
    Path("net.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    with pytest.raises(ManifestError, match="bfloat16"):
        model_files.read_weights(Path("net.safetensors"), model)
