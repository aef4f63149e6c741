"""Warnings about the figures of a trial, each with a hint at the next step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.manifests.workloads import PROOF_STEPS
from suite.report.warning import ReportWarning
from suite.results import rental, stats
from suite.results.metric import values_of
from suite.results.record import Record, parity_of

FEW_RUNS = 3
CONSTANT_BLOCKS = 5
HIGH_SPREAD = 0.05
BUSY_CORES = 0.25  # of other processes, on average over the blocks
DIFFERENT_CORES = 1.3  # the ratio of the cores that two runs of a trial used
LARGE_OVERHEAD = 0.01  # of the median latency, for a model that does nothing
SAMPLER_SHARE = 0.005  # of the cores, for the telemetry
THROTTLED_SHARE = 0.01  # of the periods of a CPU quota
TITLES = {  # of the problems of telemetry
    "sampler": "telemetry is not whole",
    "cpu_energy": "the CPU's energy counter is not used",
    "gpu": "the GPU was not sampled",
    "gpu_energy": "the GPU's energy counter is not used",
    "gpu_used_bytes": "impossible values of the GPU's memory",
    "gpu_utilisation": "impossible values of the GPU's utilization",
    "gpu_power_w": "impossible values of the GPU's power",
    "gpu_sm_clock_mhz": "impossible values of the GPU's clock",
    "gpu_temperature_c": "impossible values of the GPU's temperature",
    "gpu_processes": "impossible values of the GPU's processes",
}
STEADY_GOVERNORS = (None, "performance")


def warnings_of(runs: Sequence[Record]) -> tuple[ReportWarning, ...]:
    """The warnings about the runs of one trial; none where no run is ok."""
    ok = [run for run in runs if run.status == "ok" and run.samples_per_s]
    if not ok:
        return ()
    return (
        *_parity(ok),
        *_queries(ok),
        *_series(ok),
        *_disturbances(ok),
        *_setup(ok),
        *_machine(ok),
    )


def _parity(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings about the proof that a trial is the same work, and about its loss."""
    first, parity = runs[0], parity_of(runs)
    trains = first.workload.mode == "train"
    if not trains and parity.closing and not parity.closing.proven:
        hint = "the same calls gave other answers than in the certificate; docs/reference/proofs.md"
        yield ReportWarning("answers not proven", str(parity.reason), hint)
    elif not parity.proven:
        hint = f"dlsuite parity --framework {first.framework}"
        if parity.closing is None or not parity.closing.proven:
            hint = "run it again; docs/reference/proofs.md describes the closing proof"
        yield ReportWarning("not proven to be the same work", str(parity.reason), hint)
    elif trains and (parity.steps or 0) < PROOF_STEPS:
        hint = "--proof-steps 10; docs/reference/proofs.md explains when more steps prove nothing"
        yield ReportWarning("proven over few steps", f"{parity.steps}", hint)
    if parity.closing and parity.closing.batch_size:
        hint = "the float64 reference of a large batch takes too long; docs/reference/proofs.md"
        detail = f"batch {parity.closing.batch_size}"
        yield ReportWarning("closing proof at a smaller batch size", detail, hint)
    constant = next((each for each in map(_constant_loss, runs) if each is not None), None)
    if constant is not None:
        detail = f"{constant:.3g} at the end of {CONSTANT_BLOCKS} blocks"
        hint = "training stands still or does nothing; see the blocks in the record"
        yield ReportWarning("the loss is constant", detail, hint)


def _queries(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings about the queries of inference: the overhead, their number, the rate of a server."""
    first = runs[0]
    found = [run.inference for run in runs if run.inference]
    offline = first.workload.scenario == "offline"
    overhead = max((each.overhead_share or 0.0 for each in found), default=0.0)
    if overhead > LARGE_OVERHEAD:
        hint = "it is part of the figures: a smaller difference between rows means nothing"
        part = "a call" if offline else "p50"
        yield ReportWarning("overhead above 1 %", f"{overhead:.1%} of {part}", hint)
    fewest = min((each.samples if offline else each.queries for each in found), default=0)
    if found and fewest < first.measure.min_queries:
        kind = "samples" if offline else "queries"
        detail = f"{fewest:,} of {first.measure.min_queries:,} {kind}"
        hint = "a larger max_query_s in the suite's measure; percentiles of few queries are rough"
        yield ReportWarning("fewer queries than the suite wants", detail, hint)
    bound_s = first.workload.latency_bound_s
    if bound_s and not all(each.holds(bound_s) for each in found):
        hint = "a quieter machine, or a larger latency_bound_s in the suite"
        detail = f"p99 above {1000 * bound_s:g} ms"
        yield ReportWarning("the rate of queries does not hold", detail, hint)


def _series(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings about the number of runs and their variation."""
    values = values_of(runs)
    if 0 < len(values) < FEW_RUNS:
        yield ReportWarning("too few runs", f"{len(values)}", f"--repeats {FEW_RUNS} or more")
    unsteady = sum(run.steady is False for run in runs)
    if unsteady:
        hint = "a larger max_warmup_blocks in the suite, or a quieter machine"
        yield ReportWarning("not steady after warm-up", f"{unsteady} of {len(runs)} runs", hint)
    spread = stats.summarise([*values.values()]).spread
    if spread is not None and spread > HIGH_SPREAD:
        hint = "more --repeats; " + (
            "dlsuite compare compares interleaved rows block by block"
            if runs[0].interleaved > 1
            else "to compare on a noisy machine, --interleave"
        )
        yield ReportWarning("runs vary", f"±{spread:.1%}", hint)


def _setup(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings about threads, packages and the CPU's frequency."""
    first = runs[0]
    threads = first.reported_device.get("threads")
    cpus = first.cores // first.devices.ranks
    if first.runtime.threads == "cores" and threads not in (None, cpus):
        hint = "the framework ignored the number of threads; report it"
        yield ReportWarning("threads differ from cores", f"{threads} on {cpus}", hint)
    if first.environment.get("own_python"):
        hint = "without --python the packages are those of the lock"
        yield ReportWarning("packages of the user's own Python", "no lock", hint)
    products = (first.reported_device.get("policy") or {}).get("products")
    if first.workload.precision == "bf16_mixed" and products == "float32":
        hint = (
            "its speed is that of float32 with rounding; docs/reference/configurations.md#precision"
        )
        yield ReportWarning("products in float32", "operands rounded to bfloat16", hint)
    if rented := rental.of_environment(first.environment):
        for difference in rental.differences(rented, first.environment):
            hint = f"{rented.machine_type} at {rented.place} is not what was offered"
            yield ReportWarning("another machine than offered", difference, hint)
    limits = first.environment.get("limits") or {}
    dropped = [name for name in ("memory_bytes", "pids") if name in limits and not limits[name]]
    if dropped:
        names = " and ".join(
            {"memory_bytes": "memory", "pids": "processes"}[each] for each in dropped
        )
        hint = "docker info shows its warnings; a rootless engine needs cgroup v2 with delegation"
        yield ReportWarning("the engine did not limit the container", names, hint)
    if first.environment.get("isolated_cpus"):
        hint = "start dlsuite on CPUs that are not in the kernel's isolcpus"
        yield ReportWarning("the CPUs are isolated", "threads may share one of them", hint)
    governor = first.environment.get("governor")
    if governor not in STEADY_GOVERNORS:
        hint = "cpupower frequency-set --governor performance"
        yield ReportWarning("the CPU's frequency varies", f"governor {governor}", hint)


def _disturbances(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings about a CPU quota, and about disturbed blocks."""
    throttled = max((run.throttled or 0.0 for run in runs), default=0.0)
    if throttled > THROTTLED_SHARE:
        quota = runs[0].environment.get("cpu_quota")
        limit = f" of {quota:g} CPUs" if quota else ""
        hint = "a higher CPU limit of the pod, job or service, or none"
        detail = f"in {throttled:.0%} of its periods"
        yield ReportWarning(f"the CPU quota{limit} was used up", detail, hint)
    timed = [block for run in runs for block in run.timed_blocks]
    disturbed = sum(block.disturbed for block in timed)
    if disturbed:
        counted = sum(block.disturbed for run in runs for block in run.counted_blocks)
        title = "disturbed blocks were left out" if not counted else "disturbed blocks are counted"
        hint = "a quieter machine; docs/explanation/method.md#disturbances"
        if counted:
            hint = "too few were undisturbed; end other processes, run again"
        yield ReportWarning(title, f"{disturbed} of {len(timed)}", hint)


def _constant_loss(run: Record) -> float | None:
    """The loss of the last blocks where it is exactly the same in all of them."""
    last = run.blocks.loss[-CONSTANT_BLOCKS:]
    return last[0] if len(last) == CONSTANT_BLOCKS and len(set(last)) == 1 else None


def _machine(runs: Sequence[Record]) -> Iterator[ReportWarning]:
    """Warnings from the telemetry: other processes, a high cost, a shared or throttled GPU."""
    of_ranks = (rank.telemetry for run in runs for rank in run.ranks or [run])
    measured = [each for each in of_ranks if each]
    problems = {name: text for each in measured for name, text in each.problems.items()}
    for name, text in problems.items():
        hint = "figures that miss are unknown, not 0; see telemetry.jsonl beside the log"
        yield ReportWarning(TITLES[name], text, hint)
    busy = max((run.other_cores or 0.0 for run in runs), default=0.0)
    if busy > BUSY_CORES:
        seen = {each.pid: each.name for run in runs for each in run.neighbours}
        causes = tuple(f"{name} ({pid})" for pid, name in seen.items())
        hint, detail = "run again without them", f"on {busy:.1f} cores"
        yield ReportWarning("other processes ran", detail, hint, causes)
    used = [run.cores_used for run in runs if run.cores_used]
    if used and max(used) > DIFFERENT_CORES * min(used):
        hint = "the framework spread its work over the cores in some processes only: more --repeats"
        detail = f"{min(used):.2f} to {max(used):.2f}"
        yield ReportWarning("runs computed on different numbers of cores", detail, hint)
    cpus = len(runs[0].environment.get("cpus") or [0])
    sampler = max((each.sampler_cores or 0 for each in measured), default=0) / cpus
    if sampler > SAMPLER_SHARE:
        hint = "a larger sample_s in the suite's measure, or 0"
        yield ReportWarning("high cost of telemetry", f"{sampler:.1%} of the cores", hint)
    stolen = max((each.steal_cores or 0 for each in measured), default=0)
    if stolen > BUSY_CORES:
        hint = "a dedicated machine; to compare on this one, --interleave"
        yield ReportWarning("the hypervisor took CPU time", f"{stolen:.1f} cores", hint)
    gpus = [each.gpu for each in measured if each.gpu]
    if any(gpu.other_processes for gpu in gpus):
        most = max(gpu.other_processes or 0 for gpu in gpus)
        hint = "find them with nvidia-smi, and end them"
        yield ReportWarning("the GPU was shared", f"{most} other processes", hint)
    throttled = dict.fromkeys(reason for gpu in gpus for reason in gpu.throttled or ())
    if throttled:
        hint = "improve cooling, or see nvidia-smi -q -d PERFORMANCE,POWER"
        yield ReportWarning("the GPU was throttled", ", ".join(throttled), hint)
