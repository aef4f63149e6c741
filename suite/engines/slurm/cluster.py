"""Slurm's commands: one job for a whole plan, whose nodes then run the workers as job steps."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from suite.errors import EngineError
from suite.messages import Notify
from suite.worker.programs import Answer, ask

TIMEOUT_S = 60.0  # of a command of Slurm
POLL_S = 10.0  # between two questions; sites limit how often a program may ask
ATTEMPTS = 30  # a controller that restarts may need minutes
# Of sbatch and scancel: they are asked while somebody waits for an end or a reason.
FEWER_ATTEMPTS = 3
# Asking again is vain.
FINAL = re.compile(r"invalid|not on PATH|unrecognized option|already complet", re.IGNORECASE)
# The controller is late or is not there: sbatch can be asked again.
BUSY = re.compile(r"timed out|not answer|connect|zero bytes|temporarily", re.IGNORECASE)
# The variables of an outer job change what Slurm's commands do: they are not inherited, but for
# those by which a user chooses the cluster and the account.
PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SCONTROL_")
CONFIGURATION = (
    *("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"),
    *("SBATCH_ACCOUNT", "SBATCH_CLUSTERS", "SBATCH_QOS", "SBATCH_RESERVATION"),
)
CLUSTER = "SLURM_CLUSTERS"  # the variable by which all of Slurm's commands ask another cluster
HOLDING = ("RUNNING", "RESIZING", "SIGNALING")  # states of a job that has its nodes
LIVE = (
    *(*HOLDING, "PENDING", "CONFIGURING", "SUSPENDED", "STOPPED"),
    *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
)
# The user's options that take the place of one that dlsuite adds.
REPLACING = {
    "--exclusive": ("--exclusive", "--oversubscribe", "--share", "-s"),
    "--no-requeue": ("--no-requeue", "--requeue"),
    "--gpus-per-node": (
        *("--gpus-per-node", "--gpus", "-G", "--gpus-per-task", "--gpus-per-socket"),
        *("--gres", "--tres-per-node", "--tres-per-task"),
    ),
}
# What sbatch prints: a number and, where it asked another cluster, its name.
SUBMITTED = re.compile(
    r"^(?:Submitted batch job )?(\d+)(?:;(\S+)| on cluster (\S+))?\s*$", re.MULTILINE
)
NO_REASON = ("None", "(null)", "N/A")
# The batch script holds the nodes until the job is cancelled or its time is over.
HOLD = "exec sleep infinity"
HINT = "sinfo shows the cluster's partitions and nodes"
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
        """The options of sbatch. `--no-NAME` removes the option NAME that dlsuite adds."""
        added = ["--exclusive", "--no-requeue"]
        if self.gpus_per_node:
            added.append(f"--gpus-per-node={self.gpus_per_node}")
        removals = {f"--no-{name.removeprefix('--')}": name for name in REPLACING}
        of_user = [each for each in self.options if each not in removals]
        removed = {removals[each] for each in self.options if each in removals}
        kept = [
            option
            for option in added
            if (name := option.partition("=")[0]) not in removed
            and not any(_names(each, REPLACING[name]) for each in of_user)
        ]
        return [f"--nodes={self.nodes}", *kept, *of_user]

    @property
    def cluster(self) -> str | None:
        """The name of another cluster, from the user's options or SBATCH_CLUSTERS."""
        words = " ".join(self.options)
        named = _word(r"(?:^|\s)(?:--clusters?[= ]|-M ?)(\S+)", words)
        return named or os.environ.get("SBATCH_CLUSTERS")


def _names(option: str, names: Sequence[str]) -> bool:
    """Whether an option is one of these, with or without a value: --gres=gpu:4, -G4."""
    return option.split("=")[0].split()[0] in names or any(
        option.startswith(name) for name in names if len(name) == 2 and not option.startswith("--")
    )


@dataclass(frozen=True)
class Job:
    """A job in the queue, on its nodes, or ended."""

    number: str
    state: str  # as squeue names it: PENDING, RUNNING, NODE_FAIL, ...
    reason: str = ""  # why it is in this state; empty where Slurm gives none

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


def use(cluster: str) -> None:
    """Let all later commands ask this cluster."""
    os.environ[CLUSTER] = cluster


def environment() -> dict[str, str]:
    """The variables for Slurm's commands: without those of an outer job."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in CONFIGURATION or not name.startswith(PREFIXES)
    }


@dataclass(frozen=True)
class Cluster:
    """Asks Slurm about jobs; a question without an answer is asked again.

    Its methods raise NoAnswer where Slurm does not answer, or refuses the question.
    """

    notify: Notify
    poll_s: float = POLL_S

    def submit(self, name: str, allocation: Allocation, log: str) -> str:
        """Submit the job that holds the nodes; return its number.

        EngineError where Slurm refuses it. An sbatch without an answer may have submitted the job,
        which is then found by its name; it is asked again only where it is not.
        """
        command = ["sbatch", "--parsable", f"--job-name={name}", f"--output={log}"]
        command += [*allocation.arguments(), f"--wrap={HOLD}"]
        for attempt in range(1, FEWER_ATTEMPTS + 1):
            reply = _ask(command)
            found = SUBMITTED.findall(reply.output)
            if found and not reply.problem:
                number, *clusters = found[-1]
                for each in filter(None, clusters):
                    use(each)
                return str(number)
            message = _message("sbatch", reply)
            job = None if FINAL.search(message) else self.find(name)
            if not job and BUSY.search(message) and attempt < FEWER_ATTEMPTS:
                self.notify(f"{message}; asking again in {self.poll_s:g} s")
                time.sleep(self.poll_s)
                job = self.find(name)
            elif not job:
                break
            if job:
                return job.number
        raise NoAnswer(message, hint=HINT)

    def find(self, name: str) -> Job | None:
        """The job with this name that has not ended; None where there is none."""
        text = self.output_of(["squeue", "--noheader", f"--name={name}", "--format=%i %T"])
        for number, state in re.findall(r"^\s*(\d+)\s+([A-Z_]+)\s*$", text, re.MULTILINE):
            if state in LIVE:
                return Job(number, state)
        return None

    def job(self, number: str) -> Job:
        """A job as squeue knows it, else scontrol; its state is ENDED where neither does.

        One empty answer of squeue does not end a job.
        """
        command = ["squeue", "--noheader", f"--jobs={number}", "--format=%i %T %r"]
        try:
            text = self.output_of(command)
        except NoAnswer:  # scontrol may answer
            text = ""
        found = re.search(rf"^\s*{number}\s+([A-Z_]+\+?)(?: +(.*?))?\s*$", text, re.MULTILINE)
        if found is None:
            shown = self._shown(number)
            found = re.search(r"\bJobState=([A-Z_]+)(?:\s+Reason=(\S+))?", shown)
        if found is None:
            return Job(number, "ENDED")
        reason = found[2] or ""
        return Job(number, found[1], "" if reason in NO_REASON else reason)

    def steps(self, number: str) -> dict[str, str]:
        """The running steps of a job: JOB.STEP -> name; none where Slurm does not know the job."""
        command = ["squeue", "--noheader", "--steps", f"--jobs={number}", "--format=%i %j"]
        try:
            text = self.output_of(command, attempts=FEWER_ATTEMPTS)
        except NoAnswer:
            return {}
        found = re.findall(r"^\s*(\d+\.\d+)\s+(\S.*)$", text, re.MULTILINE)
        return {step: name.strip() for step, name in found}

    def addresses(self, number: str) -> tuple[str, ...]:
        """The network address of each node of a job, in the order of the ranks."""
        nodes = _word(r"(?<!Req)(?<!Exc)\bNodeList=(\S+)", self._shown(number))
        if not nodes or nodes == "(null)":
            raise NoAnswer(f"job {number} has no list of nodes", hint=HINT)
        shown = self.output_of(["scontrol", "show", "node", nodes])
        known = dict(re.findall(r"NodeName=(\S+)(?:(?!NodeName=).)*?NodeAddr=(\S+)", shown, re.S))
        order = self.output_of(["scontrol", "show", "hostnames", nodes]).split()
        found = tuple(known[name] for name in order if name in known)
        if not found:
            raise NoAnswer(f"scontrol shows no address of {nodes}", hint=HINT)
        return found

    def cancel(self, *arguments: str) -> None:
        """End a job, a step JOB.STEP, or with --name=NAME all jobs with this name.

        Where Slurm does not answer, a job ends at its time limit: a message says so.
        """
        try:
            self.output_of(["scancel", *arguments], attempts=FEWER_ATTEMPTS)
        except NoAnswer as error:
            if not FINAL.search(str(error)):
                self.notify(f"warning: {error}; it holds its nodes: scancel {' '.join(arguments)}")

    def output_of(self, command: Sequence[str], *, attempts: int | None = None) -> str:
        """The standard output of a command that can be repeated, as it is where it fails."""
        attempts = attempts or ATTEMPTS
        for attempt in range(1, attempts + 1):
            reply = _ask(command)
            if reply.problem is None:
                return reply.output
            message = _message(command[0], reply)
            if FINAL.search(message) or attempt == attempts:
                break
            if attempt == 1:
                self.notify(f"{message}; asking again every {self.poll_s:g} s")
            time.sleep(self.poll_s)
        raise NoAnswer(message, hint=HINT)

    def _shown(self, number: str) -> str:
        """What scontrol knows about a job; nothing where it does not know it."""
        try:
            return self.output_of(["scontrol", "show", "job", number])
        except NoAnswer as error:
            if "invalid job id" in str(error).lower():
                return ""
            raise


class NoAnswer(EngineError):
    """Slurm did not answer, or refused."""


def answer_of(command: Sequence[str]) -> str:
    """The output of a step that is started once; EngineError where it fails."""
    reply = _ask(command)
    if reply.problem:
        raise NoAnswer(_message(command[0], reply), hint=HINT)
    return reply.output


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


def _ask(command: Sequence[str]) -> Answer:
    return ask(command, timeout_s=TIMEOUT_S, environment=environment())


def _message(program: str, reply: Answer) -> str:
    if reply.problem:
        return reply.problem.replace(f"{program}: {program}: error: ", f"{program}: ")
    return f"{program} printed no job number: {reply.output.strip() or 'nothing'}"


def _word(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None
