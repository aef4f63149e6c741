import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite import datasets, inputs, manifest
from suite.errors import DataError
from suite.formats import prepared
from suite.formats.prepared import Images
from suite.inputs import Inputs, Mode
from suite.manifest import Measure
from suite.models import MODELS
from suite.plan import Plan
from tests.conftest import made_up


@pytest.mark.parametrize(("mode", "rate"), [("train", 0.1), ("parity", 0.001)])
def test_the_proof_has_a_rate_of_its_own_where_the_workload_gives_one(
    mode: Mode, rate: float, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    planned = quick("pytorch").trials[0]
    optimizer = planned.workload.optimizer.model_copy(update={"learning_rate": 0.1})
    changes = {"optimizer": optimizer, "proof_learning_rate": 0.001}
    trial = replace(planned, workload=planned.workload.model_copy(update=changes))
    folder, given = tmp_path / "trial", made_up(trial.workload, tmp_path)
    inputs.write_trial(folder, trial, given, mode=mode, measure=Measure(), cpus=[0])
    written = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert written["optimizer"] == {"name": "sgd", "learning_rate": rate}


def test_a_trial_tells_its_conditions(quick: Callable[..., Plan], tmp_path: Path) -> None:
    plan = quick("mxnet", tracks=("equal", "default"))
    given, told = made_up(plan.trials[0].workload, tmp_path), []
    for trial in plan.trials:
        folder = tmp_path / trial.track
        inputs.write_trial(folder, trial, given, mode="train", measure=Measure(), cpus=[2, 5])
        told.append(json.loads((folder / "trial.json").read_text(encoding="utf-8")))
    equal, default = told
    assert (equal["threads"], equal["tf32"]) == (2, False)
    assert equal["environment"]["OMP_NUM_THREADS"] == "2"
    assert equal["environment"]["NVIDIA_TF32_OVERRIDE"] == "0"
    assert (default["threads"], default["tf32"]) == (None, None)
    assert default["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_loader_wants_a_folder_of_photographs(
    quick: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = quick("pytorch").trials[0].workload.model_copy(update={"input": "loader"})
    dataset = manifest.dataset(workload.dataset)
    monkeypatch.setattr(datasets, "ready", lambda *given: tmp_path)
    with pytest.raises(DataError, match="mnist is no folder of photographs"):
        inputs.obtain(workload, seed=1, place=tmp_path, say=print)
    photographs = dataset.model_copy(update={"format": "image_folder", "name": "imagenet"})
    monkeypatch.setattr(datasets, "of", lambda workload: photographs)
    gone = Images(
        source_folder=str(tmp_path / "gone"), sha256="", classes=(), samples={}, unreadable={}
    )
    prepared.write(tmp_path, "imagenet", "a folder", gone)
    with pytest.raises(DataError, match="gone, from which imagenet was prepared, is not there any"):
        inputs.obtain(workload, seed=1, place=tmp_path, say=print)


@pytest.mark.parametrize(("where", "refused"), [("host", True), ("disk", False)])
def test_inputs_that_do_not_fit_in_memory_are_refused(
    where: str, refused: bool, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    workload = quick("pytorch").trials[0].workload.model_copy(update={"input": where})
    given = Inputs(
        architecture=MODELS["lenet"](),
        dataset=manifest.dataset("mnist"),  # 70,000 x 784 x 4 bytes
        data=tmp_path,
        weights=tmp_path,
        order=tmp_path,
        sha256="",
        origin="",
    )
    given.must_fit(workload, 219_520_000, 1)
    given.must_fit(workload, None, 1)  # not known
    if refused:
        with pytest.raises(
            DataError, match=r"mnist takes 0\.2 GiB in memory, this machine has 0\.2"
        ):
            given.must_fit(workload, 219_519_999, 1)
        with pytest.raises(DataError, match=r"mnist takes 0\.4 GiB in memory of 2 workers at once"):
            given.must_fit(workload, 439_039_999, 2)
    else:
        given.must_fit(workload, 1, 1)
