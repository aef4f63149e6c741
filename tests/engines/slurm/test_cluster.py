"""Slurm's commands with answers that are late, empty, half, or behind a banner: stubs on PATH."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines.slurm import cluster, engine
from suite.engines.slurm.cluster import Allocation, Cluster, Job, NoAnswer
from suite.errors import EngineError

Stub = Callable[[str, str], None]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Put a program on PATH, from the lines of a shell script; $HERE is a folder that it has."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("HERE", str(tmp_path))

    def make(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return make


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def slurm(messages: list[str]) -> Cluster:
    return Cluster(messages.append, poll_s=0.01)


def test_a_failed_question_is_asked_again_and_the_reason_is_said(
    stub: Stub, slurm: Cluster, messages: list[str]
) -> None:
    stub(
        "squeue",
        'if [ -e "$HERE/asked" ]; then echo "12 RUNNING"; else touch "$HERE/asked";'
        ' echo "slurm_load_jobs error: Socket timed out on send/recv" >&2; exit 1; fi',
    )
    assert slurm.find("name") == Job("12", "RUNNING")
    (line,) = messages
    assert "Socket timed out" in line and "asking again" in line


def test_questions_end_after_a_number_of_failures(
    stub: Stub, slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ATTEMPTS", 3)
    stub("squeue", 'echo x >> "$HERE/asked"; echo "Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(NoAnswer, match="Unable to contact slurm controller"):
        slurm.find("name")
    assert Path(os.environ["HERE"], "asked").read_text() == "x\n" * 3


@pytest.mark.parametrize("printed", ["", "Welcome to Iris", "12"])
def test_an_empty_or_half_answer_does_not_end_a_job(
    stub: Stub, slurm: Cluster, printed: str
) -> None:
    stub("squeue", f"echo '{printed}'")
    stub("scontrol", "echo 'JobId=12 JobName=x'; echo '   JobState=RUNNING Reason=None'")
    assert slurm.job("12") == Job("12", "RUNNING")
    stub("scontrol", "echo '   JobState=CANCELLED Reason=None'")
    assert slurm.job("12") == Job("12", "CANCELLED")


def test_a_job_that_neither_program_knows_has_ended(stub: Stub, slurm: Cluster) -> None:
    stub("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    stub("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.job("12") == Job("12", "ENDED")
    assert slurm.steps("12") == {}


@pytest.mark.parametrize(
    ("printed", "state", "shown"),
    [
        ("12 PENDING Priority", "PENDING", "PENDING (Priority)"),
        ("12 RUNNING None", "RUNNING", "RUNNING"),
        ("12 NODE_FAIL NodeDown", "NODE_FAIL", "NODE_FAIL (NodeDown)"),
        ("12 CANCELLED by 1000", "CANCELLED", "CANCELLED (by 1000)"),
        ("12 OUT_OF_ME+ ", "OUT_OF_ME+", "OUT_OF_ME+"),
        ("CLUSTER: iris\n 12 PREEMPTED (null)", "PREEMPTED", "PREEMPTED"),
        ("12 PENDING (Nodes required are DOWN)", "PENDING", "PENDING ((Nodes required are DOWN))"),
    ],
)
def test_the_state_of_a_job_is_said_with_its_reason(
    stub: Stub, slurm: Cluster, printed: str, state: str, shown: str
) -> None:
    stub("squeue", f"printf '{printed}\\n'")
    stub("scontrol", "exit 1")
    assert slurm.job("12").state == state and str(slurm.job("12")) == shown


def test_an_end_that_slurm_does_not_hear_is_asked_again_and_said(
    stub: Stub, slurm: Cluster, messages: list[str]
) -> None:
    stub("scancel", 'echo x >> "$HERE/asked"; echo "Socket timed out" >&2; exit 1')
    slurm.cancel("--name=dlsuite-1")
    assert Path(os.environ["HERE"], "asked").read_text() == "x\n" * cluster.FEWER_ATTEMPTS
    assert "Socket timed out" in messages[-1] and "scancel --name=dlsuite-1" in messages[-1]
    messages.clear()
    stub("scancel", "echo 'Kill job error on job id 12: Invalid job id specified' >&2; exit 1")
    slurm.cancel("12")
    assert not messages


@pytest.mark.parametrize("printed", ["12;iris", "Submitted batch job 12 on cluster iris"])
def test_a_job_on_another_cluster_is_asked_there(
    stub: Stub, slurm: Cluster, monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "")
    stub("sbatch", f"echo '{printed}'")
    stub("squeue", 'test "$SLURM_CLUSTERS" = iris && echo "12 RUNNING None"')
    assert slurm.submit("name", Allocation(), "log") == "12"
    assert slurm.job("12") == Job("12", "RUNNING")


@pytest.mark.parametrize(
    "options", [("--clusters=iris",), ("-Miris",), ("-M iris",), ("--cluster=iris", "--mem=1G")]
)
def test_the_cluster_that_the_user_names_is_known(options: tuple[str, ...]) -> None:
    assert Allocation(options=options).cluster == "iris"
    assert Allocation(options=("--mem=8G", "--comment=-M")).cluster is None


@pytest.mark.parametrize(
    "printed", ["12", "Welcome to 2026\\n12;iris", "Submitted batch job 12", "12\\nHave fun\\n"]
)
def test_the_number_of_a_job_is_found_among_banners(
    stub: Stub, slurm: Cluster, printed: str
) -> None:
    stub("sbatch", f"printf '{printed}\\n'")
    assert slurm.submit("name", Allocation(), "log") == "12"


def test_a_job_whose_sbatch_failed_late_is_found_by_its_name(stub: Stub, slurm: Cluster) -> None:
    stub("sbatch", "echo 'sbatch: error: Socket timed out' >&2; exit 1")
    stub("squeue", "echo '15 PENDING'")
    assert slurm.submit("name", Allocation(), "log") == "15"
    stub("squeue", "true")
    with pytest.raises(NoAnswer, match="sbatch: Socket timed out"):
        slurm.submit("name", Allocation(), "log")


def test_an_sbatch_that_a_busy_controller_did_not_hear_is_repeated(
    stub: Stub, slurm: Cluster, messages: list[str]
) -> None:
    stub(
        "sbatch",
        'if [ -e "$HERE/asked" ]; then echo 16; else touch "$HERE/asked";'
        " echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1; fi",
    )
    stub("squeue", "true")
    assert slurm.submit("name", Allocation(), "log") == "16"
    assert len(messages) == 1 and messages[0].endswith("asking again in 0.01 s")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("true", "sbatch printed no job number: nothing"),
        ("echo 'sbatch: error: Requested node is not available' >&2; exit 1", "is not available"),
    ],
)
def test_an_sbatch_that_refuses_is_not_repeated(
    stub: Stub, slurm: Cluster, script: str, reason: str
) -> None:
    stub("sbatch", f'echo x >> "$HERE/asked"; {script}')
    stub("squeue", "true")
    with pytest.raises(NoAnswer, match=reason):
        slurm.submit("name", Allocation(), "log")
    assert Path(os.environ["HERE"], "asked").read_text() == "x\n"


def test_steps_and_addresses_behind_banners(stub: Stub, slurm: Cluster) -> None:
    stub("squeue", "echo Hello you; echo '12.0 worker one'; echo '12.batch batch'")
    assert slurm.steps("12") == {"12.0": "worker one"}
    stub(
        "scontrol",
        'case "$2" in'
        " job) echo 'ReqNodeList=(null) ExcNodeList=(null)'; echo '  NodeList=n[9-10]';;"
        " node) echo 'NodeName=n10 Arch=x'; echo '  NodeAddr=10.0.0.10';"
        " echo 'NodeName=n9 Arch=x'; echo '  NodeAddr=10.0.0.9';;"
        " hostnames) echo Welcome; echo n9; echo n10;; esac",
    )
    assert slurm.addresses("12") == ("10.0.0.9", "10.0.0.10")


def test_the_description_of_a_node_is_found_among_banners() -> None:
    text = 'Loading modules {cuda}\n{"cpus": [0], "gpus": []}\nbye\n'
    assert engine._description(text) == {"cpus": [0], "gpus": []}
    with pytest.raises(EngineError, match="it printed: bye"):
        engine._description("{half\nbye\n")


def test_variables_of_an_outer_job_are_not_inherited(
    stub: Stub, slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = ("SLURM_JOB_ID", "SLURM_NTASKS", "SBATCH_EXCLUSIVE", "SRUN_CPUS", "SQUEUE_FORMAT")
    for name in (*outer, "SLURM_CONF", "SLURM_CLUSTERS", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "here")
    stub("squeue", "env")
    names = {line.partition("=")[0] for line in slurm.output_of(["squeue"]).splitlines()}
    assert not names & set(outer)
    assert {"SLURM_CONF", "SLURM_CLUSTERS", "SBATCH_ACCOUNT", "PATH"} <= names


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["--exclusive", "--no-requeue", "--gpus-per-node=4"]),
        (["--gres=gpu:4"], ["--exclusive", "--no-requeue", "--gres=gpu:4"]),
        (["-G4"], ["--exclusive", "--no-requeue", "-G4"]),
        (["--no-exclusive"], ["--no-requeue", "--gpus-per-node=4"]),
        (["--no-gpus-per-node"], ["--exclusive", "--no-requeue"]),
        (["--exclusive=user"], ["--no-requeue", "--gpus-per-node=4", "--exclusive=user"]),
        (["--mem=8G"], ["--exclusive", "--no-requeue", "--gpus-per-node=4", "--mem=8G"]),
        (["--requeue"], ["--exclusive", "--gpus-per-node=4", "--requeue"]),
    ],
)
def test_the_users_options_replace_or_remove_those_that_dlsuite_adds(
    options: list[str], expected: list[str]
) -> None:
    allocation = Allocation(gpus_per_node=4, options=tuple(options))
    assert allocation.arguments() == ["--nodes=1", *expected]
