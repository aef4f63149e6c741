"""Compares two sets of trials: finds the comparable pairs, and the ratio of their metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from suite.report.summary import TrialSummary
from suite.results import stats
from suite.results.blocks import rates_over_time
from suite.results.columns import as_text
from suite.results.equivalence import RatioInterval, ratio_of_rounds, ratio_of_runs
from suite.results.record import Record

# Two trials are comparable only where these are equal.
WORK = ("workload", "device", "cpu_parts", "interleaved")
# In a comparison of two whole runs these must be equal too.
CONFIGURATION = ("framework", "variant", "track")
# Fields of a workload that do not change the timed work.
UNCOMPARED = {"epochs", "epoch_samples", "proof_learning_rate"}
# These may differ, and are listed.
HOST = ("cpu", "cpus", "cpu_quota", "memory_bytes", "kernel", "gpus")
# A difference of these is one of the machine, not of the software.
MACHINE = ("cpu", "cpu_quota", "gpus")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Trial b compared with trial a; `refused` is the reason where that is impossible."""

    a: TrialSummary
    b: TrialSummary
    difference: stats.Difference | None
    interval: RatioInterval | None  # of the speed of b over that of a: above 1, b is faster
    refused: str | None
    other_differences: tuple[str, ...]  # versions, machine


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """All pairs, and a message for each trial without a partner."""

    pairs: tuple[Comparison, ...]
    unmatched: tuple[str, ...]


def compare(
    a: Sequence[TrialSummary],
    b: Sequence[TrialSummary],
    *,
    across: bool = False,
    across_machines: bool = False,
) -> Comparisons:
    """Pair the trials of equal work, `across` configurations or only of the same configuration.

    Trials of machines that differ in what MACHINE names, in cores or in threads are refused, unless
    `across_machines`.
    """
    fields = WORK if across else (*CONFIGURATION, *WORK)
    pairs, unmatched = [], []
    remaining = list(b)
    for trial in a:
        same = [other for other in remaining if not _differing(trial, other, fields)]
        of_seed = (other for other in same if other.record.seed == trial.record.seed)
        partner = next(of_seed, same[0] if same else None)
        if partner is None:
            unmatched.append(_why_unmatched(trial, b, fields))
            continue
        remaining.remove(partner)
        pairs.append(_pair(trial, partner, across_machines=across_machines))
    unmatched += [_why_unmatched(trial, a, fields) for trial in remaining]
    return Comparisons(pairs=tuple(pairs), unmatched=tuple(unmatched))


def _pair(a: TrialSummary, b: TrialSummary, *, across_machines: bool) -> Comparison:
    refused = next((reason for trial in (a, b) if (reason := _unfit(trial))), None)
    refused = refused or (None if across_machines else _other_machine(a, b))
    return Comparison(
        a=a,
        b=b,
        difference=None if refused else difference(a, b),
        interval=None if refused else _speed_interval(a, b),
        refused=refused,
        other_differences=tuple(_other_differences(a, b)),
    )


def difference(a: TrialSummary, b: TrialSummary) -> stats.Difference:
    """The difference of the metric, of which less may be better."""
    return replace(_ratio(a, b), lower_is_better=a.metric.lower_is_better)


def _ratio(a: TrialSummary, b: TrialSummary) -> stats.Difference:
    """The ratio by rounds where both were interleaved in the same run, else by all runs."""
    if rounds := _rounds(a, b):
        return stats.compare_rounds(rounds)
    return stats.compare([*a.values.values()], [*b.values.values()])


def _speed_interval(a: TrialSummary, b: TrialSummary) -> RatioInterval | None:
    """Of latencies, that of the inverse."""
    if rounds := _rounds(a, b):
        inverse = a.metric.lower_is_better
        return ratio_of_rounds([1 / each if inverse else each for each in rounds])
    sides = [[*trial.values.values()] for trial in (a, b)]
    return ratio_of_runs(*(reversed(sides) if a.metric.lower_is_better else sides))


def _rounds(a: TrialSummary, b: TrialSummary) -> list[float]:
    """The ratio of b to a in each round in which both were interleaved; none in separate runs."""
    same_group = (a.record.run_id, a.record.seed) == (b.record.run_id, b.record.seed)
    if not (same_group and a.record.interleaved > 1):
        return []
    return [_interleaved_ratio(a, b, each) for each in sorted(a.values.keys() & b.values.keys())]


def _interleaved_ratio(a: TrialSummary, b: TrialSummary, repeat: int) -> float:
    """The ratio of b to a in one round; of whole runs where no blocks alternate."""
    ratio = stats.interleaved_ratio(
        *(rates_over_time(each.runs[repeat].counted_blocks) for each in (a, b))
    )
    return ratio or b.values[repeat] / a.values[repeat]


def _unfit(trial: TrialSummary) -> str | None:
    """Why a trial cannot be compared; None where it can."""
    if not trial.values:
        reason = trial.error.first_line if trial.error else "no run"
        return f"{name(trial)} has no {trial.metric.name}: {reason}"
    if not trial.parity.proven:
        return f"{name(trial)} is not proven to be the same work: {trial.parity.reason}"
    return None


def _other_machine(a: TrialSummary, b: TrialSummary) -> str | None:
    """What of the machines excludes a comparison of the software; None where nothing does."""
    facts = {fact: (_host(a.record, fact), _host(b.record, fact)) for fact in MACHINE}
    facts["cores"] = (_cores(a.record), _cores(b.record))
    facts["threads"] = (_threads(a.record), _threads(b.record))
    if a.record.framework != b.record.framework:  # each has its own
        del facts["threads"]
    found = [f"{fact} ({_text(x)}, {_text(y)})" for fact, (x, y) in facts.items() if x != y]
    return f"{name(b)} ran on another machine than a: {', '.join(found)}" if found else None


def _cores(record: Record) -> int | None:
    cpus = record.environment.get("cpus")
    return None if cpus is None else len(cpus)


def _threads(record: Record) -> Any:
    worker = record.environment.get("worker") or {}
    return (worker.get("device") or {}).get("threads")


def name(trial: TrialSummary) -> str:
    """The trial's configuration, and its run."""
    return f"{trial.record.configuration} of {trial.record.run_id}"


def _differing(a: TrialSummary, b: TrialSummary, fields: Sequence[str]) -> list[str]:
    """Each field that differs, with both values."""
    found = []
    for field in fields:
        x, y = getattr(a.record, field), getattr(b.record, field)
        if field == "workload":
            found += _differing_keys(x.model_dump(exclude=UNCOMPARED), y.model_dump())
        elif x != y:
            found.append(f"{field} ({x}, {y})")
    return found


def _differing_keys(x: dict[str, Any], y: dict[str, Any]) -> list[str]:
    return [f"{key} ({_text(x[key])}, {_text(y[key])})" for key in x if x[key] != y[key]]


def _why_unmatched(
    trial: TrialSummary, others: Sequence[TrialSummary], fields: Sequence[str]
) -> str:
    differing = min((_differing(trial, other, fields) for other in others), key=len, default=[])
    nearest = f"the nearest differs in {', '.join(differing)}" if differing else "there is none"
    return f"{name(trial)}, {trial.record.workload.model}: no comparable trial: {nearest}"


def _other_differences(a: TrialSummary, b: TrialSummary) -> list[str]:
    pairs = {
        "framework version": (a.framework_version, b.framework_version),
        "data_origin": (a.record.data_origin, b.record.data_origin),
        "engine": (a.record.engine, b.record.engine),
        **{fact: (_host(a.record, fact), _host(b.record, fact)) for fact in (*HOST, "lock_sha256")},
    }
    if a.record.framework != b.record.framework:
        del pairs["framework version"], pairs["lock_sha256"]
    return [f"{fact} ({_text(x)}, {_text(y)})" for fact, (x, y) in pairs.items() if x != y]


def _host(record: Record, fact: str) -> Any:
    """A fact about the machine; of GPUs only their names."""
    value = record.environment.get(fact)
    if fact == "gpus":
        return [gpu.get("name") for gpu in value or []]
    return value


def _text(value: Any) -> str:
    return as_text(value) if isinstance(value, dict) else "none" if value is None else str(value)
