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
    assert slurm.state("12") == "RUNNING"
    stub("scontrol", "echo '   JobState=CANCELLED Reason=None'")
    assert slurm.state("12") is None


def test_a_job_that_neither_program_knows_has_ended(stub: Stub, slurm: Cluster) -> None:
    stub("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    stub("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.state("12") is None
    assert slurm.steps("12") == {}


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
