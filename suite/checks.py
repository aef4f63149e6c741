"""Every doubt about a trial's figures, each with what can be done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suite import stats
from suite.manifest import PROOF_STEPS
from suite.records import Record, parity_of

FEW_RUNS = 3
STILL_BLOCKS = 5
HIGH_SPREAD = 0.05
BUSY_CORES = 0.25  # of others than the worker, in the mean over its blocks
SAMPLER_SHARE = 0.005  # of the cores, that the telemetry may take
STEADY_GOVERNORS = (None, "performance")


@dataclass(frozen=True)
class Doubt:
    """`kind` is the same for all trials, `detail` this one's."""

    kind: str
    detail: str
    hint: str


def doubts(runs: Sequence[Record]) -> tuple[Doubt, ...]:
    """What speaks against trusting the figures of one trial's runs; nothing where none is ok."""
    ok = [run for run in runs if run.status == "ok" and run.samples_per_s]
    return tuple(_doubts(ok)) if ok else ()


def _doubts(runs: Sequence[Record]) -> Iterator[Doubt]:
    first, parity = runs[0], parity_of(runs)
    if not parity.proven:
        hint = f"dlsuite parity --framework {first.framework}"
        if parity.closing is None or not parity.closing.proven:
            hint = "run it again; docs/method.md says what the closing proof compares"
        yield Doubt("not proven to be the same work", str(parity.reason), hint)
    elif (parity.steps or 0) < PROOF_STEPS:
        hint = "run without --proof-steps; docs/method.md says when that shows no more"
        yield Doubt("proven over few steps", f"{parity.steps}", hint)
    still = next((each for each in map(_still, runs) if each is not None), None)
    if still is not None:
        detail = f"{still:.3g} at the end of {STILL_BLOCKS} blocks"
        hint = "training has come to rest or does nothing; see the blocks in the record"
        yield Doubt("the loss does not move", detail, hint)
    if len(runs) < FEW_RUNS:
        yield Doubt("too few runs", f"{len(runs)}", f"--repeats {FEW_RUNS} or more")
    unsteady = sum(run.steady is False for run in runs)
    if unsteady:
        hint = "a larger max_warmup_blocks in the suite, or a quieter machine"
        yield Doubt("not steady after warm-up", f"{unsteady} of {len(runs)} runs", hint)
    spread = stats.summarise([run.samples_per_s or 0 for run in runs]).spread
    if spread is not None and spread > HIGH_SPREAD:
        hint = "more --repeats; " + (
            "dlsuite compare takes rows in turns round by round"
            if first.turns > 1
            else "to compare on a noisy machine, --turns"
        )
        yield Doubt("runs differ much", f"±{spread:.1%}", hint)
    threads = first.device_told.get("threads")
    cpus = len(first.environment.get("cpus") or [])
    if first.conditions.threads == "cores" and threads not in (None, cpus):
        hint = "the framework took other threads than it was told; report it"
        yield Doubt("other threads than cores", f"{threads} on {cpus}", hint)
    if first.environment.get("own_python"):
        hint = "without --python it is what the lock says"
        yield Doubt("packages of the user's own Python", "no lock", hint)
    governor = first.environment.get("governor")
    if governor not in STEADY_GOVERNORS:
        hint = "cpupower frequency-set --governor performance"
        yield Doubt("the CPU's frequency changes", f"governor {governor}", hint)
    yield from _machine(runs)


def _still(run: Record) -> float | None:
    """The loss of the last blocks where all have the very same, to the last bit."""
    last = [block.loss for block in run.blocks][-STILL_BLOCKS:]
    return last[0] if len(last) == STILL_BLOCKS and len(set(last)) == 1 else None


def _machine(runs: Sequence[Record]) -> Iterator[Doubt]:
    """What the telemetry says of others on the machine, and of a GPU that could not do its best."""
    told = [run.telemetry for run in runs if run.telemetry]
    busy = max((each.other_cores or 0 for each in told), default=0)
    if busy > BUSY_CORES:
        yield Doubt("something else ran", f"on {busy:.1f} cores", "end it, and run again")
    cpus = len(runs[0].environment.get("cpus") or [0])
    taken = max((each.sampler_cores or 0 for each in told), default=0) / cpus
    if taken > SAMPLER_SHARE:
        hint = "a larger sample_s in the suite's measure, or 0"
        yield Doubt("the telemetry cost much", f"{taken:.1%} of the cores", hint)
    stolen = max((each.steal_cores or 0 for each in told), default=0)
    if stolen > BUSY_CORES:
        hint = "a machine of your own; to compare, --turns"
        yield Doubt("the hypervisor gave time to others", f"{stolen:.1f} cores", hint)
    gpus = [each.gpu for each in told if each.gpu]
    if any(gpu.other_processes for gpu in gpus):
        most = max(gpu.other_processes or 0 for gpu in gpus)
        yield Doubt("the GPU was shared", f"{most} other processes", "see nvidia-smi, end them")
    throttled = dict.fromkeys(reason for gpu in gpus for reason in gpu.throttled or ())
    if throttled:
        hint = "cool it, or see nvidia-smi -q -d PERFORMANCE,POWER"
        yield Doubt("the GPU was throttled", ", ".join(throttled), hint)
