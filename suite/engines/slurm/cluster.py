"""Slurm's commands: one job for a whole plan, whose nodes then run the workers as job steps."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from suite.errors import EngineError

TIMEOUT_S = 60.0
# The batch script holds the nodes until the job is cancelled or its time is over.
HOLD = "exec sleep infinity"
# A shell script that runs its arguments with a new TMPDIR on the node: a compiler's cache of
# another run would hide the cost of the first step. Apptainer takes it as the home folder, too.
WITH_TMPDIR = """\
TMPDIR=$(mktemp -d /tmp/dlsuite-XXXXXX) || exit
export TMPDIR APPTAINER_HOME="$TMPDIR"
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 143' TERM
"$@"
"""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """What `sbatch` is asked for."""

    nodes: int = 1
    gpus_per_node: int = 0
    options: tuple[str, ...] = ()  # further ones, as the user wrote them

    def arguments(self) -> list[str]:
        """The options of sbatch."""
        gpus = [f"--gpus-per-node={self.gpus_per_node}"] if self.gpus_per_node else []
        return [f"--nodes={self.nodes}", "--exclusive", "--no-requeue", *gpus, *self.options]


@dataclass(frozen=True)
class Job:
    """A job in the queue or on its nodes."""

    number: str
    state: str  # as squeue names it: PENDING, RUNNING, ...


def submit(name: str, allocation: Allocation, log: str) -> str:
    """Submit the job that holds the nodes; return its number."""
    command = ["sbatch", "--parsable", f"--job-name={name}", f"--output={log}"]
    return output_of([*command, *allocation.arguments(), f"--wrap={HOLD}"]).strip().split(";")[0]


def find(name: str) -> Job | None:
    """The job with this name that has not ended; None where there is none."""
    text = output_of(["squeue", "--noheader", f"--name={name}", "--format=%i %T"])
    for line in text.splitlines():
        number, state = line.split()
        if state in ("PENDING", "CONFIGURING", "RUNNING"):
            return Job(number, state)
    return None


def why_waiting(number: str) -> str:
    """Slurm's reason why a job does not run yet."""
    return output_of(["squeue", "--noheader", f"--jobs={number}", "--format=%r"]).strip()


def cancel(*arguments: str) -> None:
    """End a job, a step JOB.STEP, or with --name=NAME all jobs of this name that have not ended.

    Where Slurm does not answer, a job ends at its time limit.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        command = ["scancel", *arguments]
        subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)


def steps(number: str) -> dict[str, str]:
    """The running steps of a job: JOB.STEP -> name."""
    text = _output_or_nothing(
        ["squeue", "--noheader", "--steps", f"--jobs={number}", "--format=%i %j"]
    )
    found = dict(line.split(maxsplit=1) for line in text.splitlines())
    return {step: name.strip() for step, name in found.items() if step.split(".")[1].isdigit()}


def addresses(number: str) -> tuple[str, ...]:
    """The network address of each node of a job, in the order of the ranks."""
    nodes = output_of(["squeue", "--noheader", f"--jobs={number}", "--format=%N"]).strip()
    names = output_of(["scontrol", "show", "hostnames", nodes]).split()
    return tuple(_address(name) for name in names)


def start(number: str, *, name: str, nodes: int) -> list[str]:
    """The beginning of the command that starts a step of a job: one process on each node."""
    return [
        "srun",
        f"--jobid={number}",
        f"--job-name={name}",
        f"--nodes={nodes}",
        "--relative=0",  # rank 0 is on the first node of the job, also in a step of fewer nodes
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--overlap",  # the batch script does not need the cores that it has
        "--kill-on-bad-exit=1",
        "--cpu-bind=none",  # the worker pins itself
        "--quit-on-interrupt",
    ]


def _address(node: str) -> str:
    found = re.search(r"NodeAddr=(\S+)", output_of(["scontrol", "show", "node", node]))
    return found[1] if found else node


def _output_or_nothing(command: Sequence[str]) -> str:
    """The same; nothing where it fails, because the job has ended."""
    try:
        return output_of(command)
    except EngineError:
        return ""


def output_of(command: Sequence[str]) -> str:
    """The standard output of a command of Slurm; EngineError where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{command[0]}: {error}", hint="run it where sbatch works") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        message = lines[-1].removeprefix(f"{command[0]}: error: ") if lines else done.returncode
        raise EngineError(
            f"{command[0]}: {message}",
            hint="sinfo shows the cluster's partitions and nodes",
        )
    return done.stdout
