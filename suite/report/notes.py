"""The lines below a table of a run: errors, warnings, and reasons to stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from suite.report.table import INTERVAL
from suite.report.titles import row_of

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary
    from suite.report.warning import ReportWarning


def notes_of(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """The lines below the table of these trials."""
    for message, hint in errors_of(trials).items():
        yield message
        if hint:
            yield f"  hint: {hint}"
    for (kind, hint), details in warnings_of(trials).items():
        yield f"warning: {kind}: {', '.join(details)}"
        yield f"  hint: {hint}"
    yield from confidences_of(trials)
    if reasons := ", ".join(_stop_reasons(trials)):
        yield f"stop reason: {reasons}"


def confidences_of(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """The confidence of intervals of few runs, which is below 95 %."""
    known = {each.measured.runs: each.measured.range_confidence for each in trials}
    for runs, confidence in sorted(known.items()):
        if confidence:
            yield f"{INTERVAL} of {runs} runs: lowest to highest, {confidence:.0%} confidence"


def _stop_reasons(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """Why each trial got no further run; of a fixed number of runs, where it has fewer."""
    varying = any(each.record.repeats.at_least < each.record.repeats.at_most for each in trials)
    for trial in trials:
        if varying or trial.stop_reason == "time budget spent":
            yield f"{row_of(trial)} {trial.stop_reason or 'not yet'}"


def errors_of(
    trials: Sequence[TrialSummary], *, skipped: bool | None = None
) -> dict[str, str | None]:
    """Each error once with the trials that have it, and its hint.

    With `skipped`, only those of trials that were skipped, or only the others. In scenario offline,
    the batch sizes of a configuration with the same error share a line.
    """
    found: dict[tuple[str, str, str | None], list[TrialSummary]] = {}
    for trial in trials:
        error = trial.error
        if error and skipped in (None, trial.status == "skipped"):
            key = (trial.record.configuration, error.first_line, error.hint)
            found.setdefault(key, []).append(trial)
    return {f"{_rows(failed)}: {message}": hint for (_, message, hint), failed in found.items()}


def _rows(trials: Sequence[TrialSummary]) -> str:
    """The names of trials of one configuration: it, and all their batch sizes."""
    more = (str(each.record.workload.batch_size) for each in trials[1:])
    offline = trials[0].record.workload.scenario == "offline"
    return ", ".join([row_of(trials[0]), *(more if offline else ())])


def warnings_of(trials: Sequence[TrialSummary]) -> dict[tuple[str, str], list[str]]:
    """Each kind of warning and its hint once, with all the trials that it concerns.

    The causes that the trials have are in the hint.
    """
    found: dict[tuple[str, str], list[tuple[TrialSummary, ReportWarning]]] = {}
    for trial in trials:
        for warning in trial.warnings:
            found.setdefault((warning.kind, warning.hint), []).append((trial, warning))
    merged = {}
    for (kind, hint), concerned in found.items():
        causes = ", ".join(dict.fromkeys(cause for _, each in concerned for cause in each.causes))
        key = (kind, f"{hint}: {causes}" if causes else hint)
        merged[key] = [f"{row_of(trial)} ({each.detail})" for trial, each in concerned]
    return merged
