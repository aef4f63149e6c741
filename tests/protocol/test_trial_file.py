from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.protocol import trial_file
from suite.protocol.plan import Plan
from suite.protocol.schema import Mode
from suite.protocol.trial_file import Task
from tests.conftest import made_up


@pytest.mark.parametrize(("mode", "rate"), [("train", 0.1), ("parity", 0.001)])
def test_the_proof_uses_the_workloads_proof_learning_rate(
    mode: Mode, rate: float, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    planned = quick("pytorch").trials[0]
    optimizer = planned.workload.optimizer.model_copy(update={"learning_rate": 0.1})
    changes = {"optimizer": optimizer, "proof_learning_rate": 0.001}
    trial = replace(planned, workload=planned.workload.model_copy(update=changes))
    folder, inputs = tmp_path / "trial", made_up(trial.workload, tmp_path)
    trial_file.write(folder, Task(trial=trial, inputs=inputs, mode=mode), cpus=[0])
    written = trial_file.read(folder)
    assert written["optimizer"] == {"name": "sgd", "learning_rate": rate}


def test_a_trial_file_holds_the_runtime_settings(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    plan = quick("mxnet", tracks=("equal", "default"))
    inputs, written = made_up(plan.trials[0].workload, tmp_path), []
    for trial in plan.trials:
        folder = tmp_path / trial.track
        trial_file.write(folder, Task(trial=trial, inputs=inputs, mode="train"), cpus=[2, 5])
        written.append(trial_file.read(folder))
    equal, default = written
    assert (equal["threads"], equal["tf32"]) == (2, False)
    assert equal["environment"]["OMP_NUM_THREADS"] == "2"
    assert equal["environment"]["NVIDIA_TF32_OVERRIDE"] == "0"
    assert (default["threads"], default["tf32"]) == (None, None)
    assert default["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
