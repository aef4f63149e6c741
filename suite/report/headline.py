"""The answer for a workload in a sentence: which trials lead, and whether the machine was quiet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from suite.report.numbers import interval_of, listed, with_unit

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

MOST_DISTURBED = 0.1  # of the timed blocks of a workload, without a sentence about them


def of_run(run: RunData) -> str | None:
    """The answer of a run with one workload and several trials; None for other runs."""
    if len(run.by_workload) != 1 or len(run.trials) == 1:
        return None
    ((title, trials),) = run.by_workload.items()
    return of_workload(run, title, trials)


def of_workload(run: RunData, title: str, trials: Sequence[TrialSummary]) -> str:
    """Which proven trials lead, which are behind them, and whether the machine was disturbed."""
    proven = [trial for trial in trials if trial.values and trial.parity.proven]
    if not proven:
        return "No trial is both measured and proven to be the same work."
    best = proven[0]
    verdicts: dict[str, list[TrialSummary]] = {}
    for pair in run.ratios.get(title, ()):
        if pair.difference:
            verdicts.setdefault(pair.difference.verdict, []).append(pair.b)
    equal = verdicts.get("no difference shown", [])
    untested = verdicts.get("too few runs", [])
    behind = [each for each in proven[1:] if each not in (*equal, *untested)]
    if equal:
        names = listed([f"{run.label(each)} ({_measured(each)})" for each in (best, *equal)])
        parts = [f"{names} lead: no difference to the first of them is shown."]
    else:
        claim = "is fastest" if behind else "is first" if untested else "is the only proven trial"
        parts = [f"{run.label(best)} {claim}: {_measured(best)}{_interval(best)}."]
    if behind:
        parts.append(f"Behind: {listed([run.label(each) for each in behind])}.")
    if untested:
        names = listed([run.label(each) for each in untested])
        parts.append(f"Too few runs to test the difference to {names}.")
    return " ".join([*parts, *_disturbed(proven)])


def _measured(trial: TrialSummary) -> str:
    """What the trial is compared by: `2,480 samples/s`, `p50 latency 1.2 ms`."""
    metric = trial.metric
    of = f"{metric.name} " if metric.lower_is_better else ""
    return of + with_unit(trial.measured.median, metric)


def _interval(trial: TrialSummary) -> str:
    """The interval and its confidence, in brackets; empty where there is none."""
    found = trial.measured
    if found.ci_low is None or found.ci_high is None:
        return ""
    limits = interval_of(found.ci_low, found.ci_high, trial.metric)
    return f" ({100 * found.confidence:.0f} % interval {limits})"


def _disturbed(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """How many of all timed blocks were disturbed, where that is a share to know."""
    runs = [run for trial in trials for run in trial.runs.values() if run.status == "ok"]
    timed = [block for run in runs for block in run.timed_blocks]
    disturbed = sum(block.disturbed for block in timed)
    if timed and disturbed > MOST_DISTURBED * len(timed):
        yield f"The machine was disturbed in {disturbed} of {len(timed)} timed blocks."
