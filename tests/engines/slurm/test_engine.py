"""A real cluster of two nodes on this machine runs the real workers."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.engines.errors import EngineLost
from suite.engines.slurm import cluster as slurm
from suite.engines.slurm.cluster import Allocation
from suite.engines.slurm.engine import SlurmEngine
from suite.errors import EngineError
from suite.protocol.plan import Plan
from suite.results import store
from tests.conftest import each_framework, made_up
from tests.engines.ranks import RANKS, losses, none_left, train

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("cluster")]
TWO_NODES = "cpu:1x2"
SUITE = """\
name: two_nodes
title: two nodes
seed: 1
repeats: {at_least: 2, at_most: 2}
deadline_s: 120
peak: false
measure: {block_s: 0.1, max_warmup_blocks: 7, min_measure_s: 0.2, max_measure_s: 0.5}
tracks: [equal]
proof_steps: 1
devices: ["cpu:1x2"]
frameworks: [pytorch]
workloads:
  - model: lenet
    dataset: synthetic
    batch_size: 64
    epochs: 0
    optimizer: {name: sgd, learning_rate: 0.01}
"""


@pytest.fixture
def engine() -> Iterator[SlurmEngine]:
    with SlurmEngine(
        sessions.new_id(), Allocation(nodes=2), lambda text: None, poll_s=0.2
    ) as engine:
        yield engine


@pytest.mark.parametrize("framework", each_framework(RANKS))
def test_two_nodes_train_one_model(
    framework: str, engine: SlurmEngine, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick(framework).trials[0]
    inputs = made_up(trial.workload, tmp_path)
    done = train(engine, trial, inputs, tmp_path / "two-nodes", device=TWO_NODES)
    assert (done.status, len(done.ranks)) == ("ok", 2), done.error
    first, second = losses(done)
    assert [each for each in first if each] == [each for each in second if each]
    assert (tmp_path / "two-nodes" / "results" / "rank1" / "closing").is_dir()


def test_a_killed_rank_ends_the_trial_with_its_name(
    engine: SlurmEngine, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "killed-rank"
    started = time.monotonic()
    done = train(engine, trial, inputs, folder, device=TWO_NODES, kill=1, epochs=1000)
    assert done.status == "failed" and done.error
    assert done.error.message.startswith("rank 1: the process was killed")
    assert time.monotonic() - started < 100  # the deadline is 120 s
    assert none_left(engine, folder)


def test_a_cancelled_job_stops_the_run_and_not_the_plan(
    engine: SlurmEngine, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    inputs = made_up(trial.workload, tmp_path)
    slurm.Cluster(print).cancel(engine.job)
    with pytest.raises(EngineLost, match=f"job {engine.job} is no longer running: CANCELLED"):
        train(engine, trial, inputs, tmp_path / "cancelled", device=TWO_NODES)


def test_a_refused_job_is_one_line() -> None:
    allocation = Allocation(nodes=2, options=("--partition=nowhere",))
    with (
        pytest.raises(EngineError, match=r"^sbatch: .*: Invalid partition name specified"),
        SlurmEngine(sessions.new_id(), allocation, lambda text: None),
    ):
        pass


def dlsuite(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """The command `dlsuite` in a folder, in a session of its own."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("dlsuite"), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell that starts the tests in the background ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.verify
def test_a_killed_plan_is_resumed_in_its_job(tmp_path: Path) -> None:
    (tmp_path / "two_nodes.yaml").write_text(SUITE)
    run = dlsuite("run", "two_nodes.yaml", "--engine", "slurm", "--nodes", "2", folder=tmp_path)
    assert run.stdout
    for line in run.stdout:
        if "run 1/2" in line:
            run.send_signal(signal.SIGKILL)
            break
    rest = run.communicate()[0]
    resumed = dlsuite("resume", "results/latest", folder=tmp_path)
    text = resumed.communicate(timeout=180)[0]
    assert resumed.returncode == 0, rest + text
    (results,) = [path for path in (tmp_path / "results").iterdir() if not path.is_symlink()]
    assert [record.status for record in store.read(results)] == ["ok", "ok"]
    assert no_job_runs()


@pytest.mark.verify
def test_an_interrupt_cancels_the_job(tmp_path: Path) -> None:
    (tmp_path / "two_nodes.yaml").write_text(SUITE)
    run = dlsuite("run", "two_nodes.yaml", "--engine", "slurm", "--nodes", "2", folder=tmp_path)
    assert run.stdout
    for line in run.stdout:
        if "run 1/2" in line:
            run.send_signal(signal.SIGINT)
            break
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert no_job_runs()


def no_job_runs() -> bool:
    """Whether no job is left within ten seconds."""
    for _ in range(100):
        text = subprocess.run(
            ["squeue", "--noheader", "--states=RUNNING,PENDING"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if not text.strip():
            return True
        time.sleep(0.1)
    return False
