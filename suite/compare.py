"""Two sets of trials beside each other: what may be compared, and what the difference is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suite import stats
from suite.records import Record, series
from suite.report.summary import TrialSummary

# What must be equal of two trials, or their times say nothing of each other.
WORKLOAD = (
    "model",
    "dataset",
    "mode",
    "batch_size",
    "precision",
    "optimizer",
    "input",
    "device",
    "turns",
)
# What two whole runs must have in common besides; of two chosen rows it is what is compared.
MEANS = ("framework", "variant", "track")
# What may differ, as it is why one compares, and must be told.
HOST = ("cpu", "cpus", "memory_bytes", "kernel", "gpus")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Trial b beside trial a; `refused` says why there is no difference to tell."""

    a: TrialSummary
    b: TrialSummary
    difference: stats.Difference | None
    refused: str | None
    besides: tuple[str, ...]  # what else differs: versions, machine


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """All pairs, and what has no partner: each with the fields of the nearest that differ."""

    pairs: tuple[Comparison, ...]
    alone: tuple[str, ...]


def compare(
    a: Sequence[TrialSummary], b: Sequence[TrialSummary], *, across: bool = False
) -> Comparisons:
    """Pair the trials of equal work; `across` frameworks and variants, or each with its like."""
    fields = WORKLOAD if across else (*MEANS, *WORKLOAD)
    pairs, alone = [], []
    left = list(b)
    for trial in a:
        partner = next((other for other in left if not _differing(trial, other, fields)), None)
        if partner is None:
            alone.append(_why_alone(trial, b, fields))
            continue
        left.remove(partner)
        pairs.append(_pair(trial, partner))
    alone += [_why_alone(trial, a, fields) for trial in left]
    return Comparisons(pairs=tuple(pairs), alone=tuple(alone))


def _pair(a: TrialSummary, b: TrialSummary) -> Comparison:
    refused = next((reason for trial in (a, b) if (reason := _unfit(trial))), None)
    return Comparison(
        a=a,
        b=b,
        difference=None if refused else _difference(a, b),
        refused=refused,
        besides=tuple(_besides(a, b)),
    )


def _difference(a: TrialSummary, b: TrialSummary) -> stats.Difference:
    """By rounds where both took turns in the same, else by all runs of both."""
    together = a.record.run_id == b.record.run_id and a.record.turns > 1
    if together and (rounds := sorted(a.rates.keys() & b.rates.keys())):
        return stats.compare_rounds([_in_turns(a, b, each) for each in rounds])
    return stats.compare([*a.rates.values()], [*b.rates.values()])


def _in_turns(a: TrialSummary, b: TrialSummary, repeat: int) -> float:
    """b over a in one round; by their whole rates where no block lies between two of the other."""
    ratio = stats.ratio_in_turns(*(series(each.runs[repeat].blocks) for each in (a, b)))
    return ratio or b.rates[repeat] / a.rates[repeat]


def _unfit(trial: TrialSummary) -> str | None:
    """Why a trial's figure cannot be compared with any."""
    if not trial.rates:
        return f"{name(trial)} has no figure: {trial.error.message if trial.error else 'no run'}"
    if not trial.parity.proven:
        return f"{name(trial)} is not proven to be the same work: {trial.parity.reason}"
    return None


def name(trial: TrialSummary) -> str:
    """The trial's means, and the run it is of."""
    return f"{trial.record.means} of {trial.record.run_id}"


def _differing(a: TrialSummary, b: TrialSummary, fields: Sequence[str]) -> list[str]:
    """Each field that differs, with both its values."""
    return [
        f"{field} ({_words(x)}, {_words(y)})"
        for field in fields
        if (x := getattr(a.record, field)) != (y := getattr(b.record, field))
    ]


def _why_alone(trial: TrialSummary, others: Sequence[TrialSummary], fields: Sequence[str]) -> str:
    differing = min((_differing(trial, other, fields) for other in others), key=len, default=[])
    nearest = f"the nearest differs in {', '.join(differing)}" if differing else "there is none"
    return f"{name(trial)}, {trial.record.model}: nothing to compare with: {nearest}"


def _besides(a: TrialSummary, b: TrialSummary) -> list[str]:
    pairs = {
        "framework version": (a.framework_version, b.framework_version),
        "data_origin": (a.record.data_origin, b.record.data_origin),
        "engine": (a.record.engine, b.record.engine),
        **{fact: (_host(a.record, fact), _host(b.record, fact)) for fact in (*HOST, "lock_sha256")},
    }
    if a.record.framework != b.record.framework:
        del pairs["framework version"], pairs["lock_sha256"]
    return [f"{fact} ({_words(x)}, {_words(y)})" for fact, (x, y) in pairs.items() if x != y]


def _host(record: Record, fact: str) -> Any:
    value = record.environment.get(fact)
    if fact == "gpus":  # two of a kind are alike
        return [gpu.get("name") for gpu in value or []]
    return value


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    return str(value)
