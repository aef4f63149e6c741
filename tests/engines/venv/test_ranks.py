"""Several ranks as processes of this machine."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.engines.attempt import free_port
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.protocol import events, trial_file
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Node, Task
from tests.conftest import each_framework, made_up, rest_in_verify
from tests.engines.ranks import RANKS, losses, none_left, train

KILLED = (("cpu:2", 1), ("cpu:2", 0), ("cpu:1x2", 0), ("cpu:1x2", 1))


@pytest.mark.parametrize("framework", each_framework(RANKS))
@pytest.mark.parametrize("device", rest_in_verify("cpu:2", "cpu:1x2"))
def test_two_ranks_train_one_model(
    framework: str, device: str, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick(framework).trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "two-ranks"
    done = train(VenvEngine(), trial, inputs, folder, device=device)
    assert (done.status, len(done.ranks)) == ("ok", 2), done.error
    first, second = losses(done)
    assert [each for each in first if each] == [each for each in second if each]
    assert all(each.samples for each in done.ranks)
    assert (folder / "results" / "rank1" / "closing").is_dir()


@pytest.mark.verify
@pytest.mark.parametrize(("device", "rank"), rest_in_verify(*KILLED))
def test_a_killed_rank_ends_the_trial_with_its_name(
    device: str, rank: int, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "killed-rank"
    engine = VenvEngine()
    done = train(engine, trial, inputs, folder, device=device, kill=rank, epochs=1000)
    assert done.status == "failed" and done.error
    ending = "the process was killed by SIGKILL; the kernel sends it when memory runs out"
    assert done.error.message == f"rank {rank}: {ending}"
    assert none_left(engine, folder)


@pytest.mark.verify
def test_torchrun_starts_the_ranks(quick: Callable[..., Plan], tmp_path: Path) -> None:
    """A trial without an address: torchrun's variables have it, and each rank's number."""
    engine = VenvEngine()
    trial = replace(quick("pytorch").trials[0], device="cpu:2", cpu_parts=2)
    prepared = engine.prepare(catalog.framework("pytorch"), lambda text: None)
    task = Task(trial=trial, inputs=made_up(trial.workload, tmp_path), mode="train", epochs=1)
    folder = tmp_path / "torchrun"
    trial_file.write(folder, task, cpus=[*engine.host["cpus"]][:1] * 2, node=Node())
    assert prepared.python
    command = [str(prepared.python), "-m", "torch.distributed.run", "--nproc-per-node=2"]
    address = f"--master-port={free_port()}"
    done = subprocess.run(
        [*command, address, "-m", "suite.worker", str(folder)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(engine.staged())},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for results in (folder / "results", folder / "results" / "rank1"):
        assert events.one(events.read(results / "events.jsonl"), "finished")
