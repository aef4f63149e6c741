from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.manifests.workloads import Measure
from suite.protocol import trial_file
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Mode
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
    trial_file.write(folder, trial, given, mode=mode, measure=Measure(), cpus=[0])
    written = trial_file.read(folder)
    assert written["optimizer"] == {"name": "sgd", "learning_rate": rate}


def test_a_trial_tells_its_conditions(quick: Callable[..., Plan], tmp_path: Path) -> None:
    plan = quick("mxnet", tracks=("equal", "default"))
    given, told = made_up(plan.trials[0].workload, tmp_path), []
    for trial in plan.trials:
        folder = tmp_path / trial.track
        trial_file.write(folder, trial, given, mode="train", measure=Measure(), cpus=[2, 5])
        told.append(trial_file.read(folder))
    equal, default = told
    assert (equal["threads"], equal["tf32"]) == (2, False)
    assert equal["environment"]["OMP_NUM_THREADS"] == "2"
    assert equal["environment"]["NVIDIA_TF32_OVERRIDE"] == "0"
    assert (default["threads"], default["tf32"]) == (None, None)
    assert default["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
