from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.errors import UsageError
from suite.protocol import trial_file
from suite.protocol.plan import Plan
from suite.protocol.schema import Mode
from suite.protocol.trial_file import Node, Task
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
    unused = {"clip_norm": None, "schedule": None, "ema_decay": None}
    assert written["optimizer"] == {"name": "sgd", "learning_rate": rate, **unused}


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


def test_only_in_proofs_waiting_threads_leave_the_cores(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    (trial,) = quick("pytorch").trials
    inputs, modes = made_up(trial.workload, tmp_path), ("train", "infer", "parity", "replay")
    found = {}
    for mode in modes:
        task = Task(trial=trial, inputs=inputs, mode=mode)  # type: ignore[arg-type]
        trial_file.write(tmp_path / mode, task, cpus=[0])
        found[mode] = trial_file.read(tmp_path / mode)["environment"].get("OMP_WAIT_POLICY")
    assert found == {"train": None, "infer": None, "parity": "passive", "replay": "passive"}


def test_ranks_share_the_cores_equally(quick: Callable[..., Plan]) -> None:
    one, two = quick("jax", devices=("cpu:1", "cpu:2")).trials
    cores = [0, 2, 4, 6, 8]
    assert trial_file.cpus_of(one, Node(), cores) == [0, 2]
    assert trial_file.cpus_of(two, Node(), cores) == [0, 2, 4, 6]
    (nodes,) = quick("jax", devices=("cpu:1x2",)).trials
    found = [trial_file.cpus_of(nodes, Node(number=number), cores) for number in (0, 1)]
    assert found == [[0, 2], [4, 6]]
    elsewhere = Node(number=1, shared=False)
    assert trial_file.cpus_of(replace(nodes, cpu_parts=1), elsewhere, cores) == cores
    on_gpus = replace(nodes, device="cuda:1x2", cpu_parts=1)
    found = [trial_file.cpus_of(on_gpus, Node(number=number), cores) for number in (0, 1)]
    assert found == [[0, 2], [4, 6]]
    assert trial_file.cpus_of(on_gpus, elsewhere, cores) == cores


def test_more_ranks_than_cores_are_refused(quick: Callable[..., Plan]) -> None:
    (trial,) = quick("jax", devices=("cpu:4",)).trials
    with pytest.raises(UsageError, match="4 ranks need 4 cores, this machine has 2") as refused:
        trial_file.cpus_of(trial, Node(), [0, 1])
    assert refused.value.hint == "--devices cpu:2"
    (on_gpus,) = quick("jax", devices=("cuda:4",)).trials
    with pytest.raises(UsageError, match="4 ranks need 4 cores, this machine has 2"):
        trial_file.cpus_of(on_gpus, Node(), [0, 1])


def test_a_rank_has_threads_for_its_own_cores(quick: Callable[..., Plan], tmp_path: Path) -> None:
    (trial,) = quick("mxnet", devices=("cpu:2",)).trials
    task = Task(trial=trial, inputs=made_up(trial.workload, tmp_path), mode="train")
    node = Node(rendezvous="127.0.0.1:1")
    trial_file.write(tmp_path / "trial", task, cpus=[0, 1, 2, 3], node=node)
    written = trial_file.read(tmp_path / "trial")
    assert (written["world_size"], written["slices"], written["threads"]) == (2, 2, 2)
    assert written["environment"]["OMP_NUM_THREADS"] == "2"
    assert (written["device"], written["rendezvous"]) == ("cpu", "127.0.0.1:1")


def test_one_rank_does_the_same_as_a_single_process(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """So the path of several devices costs nothing where there is one."""
    alone, rank = quick("pytorch", devices=("cpu", "cpu:1")).trials
    inputs, written = made_up(alone.workload, tmp_path), []
    for trial in (alone, rank):
        folder = tmp_path / trial.trial_id
        cpus = trial_file.cpus_of(trial, Node(), [0, 2])
        trial_file.write(folder, Task(trial=trial, inputs=inputs, mode="train"), cpus=cpus)
        written.append(trial_file.read(folder))
    different = {name for name in written[0] if written[0][name] != written[1][name]}
    assert different == {"trial_id", "paths"}  # the paths name the folder of the trial
