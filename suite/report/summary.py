"""Summarises the records of one run, trial by trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from suite.models import MODELS
from suite.report import agreement
from suite.report.warning import ReportWarning
from suite.report.warnings import warnings_of
from suite.results import stats
from suite.results.record import Error, Parity, Record, Status, parity_of
from suite.results.telemetry import Energy
from suite.runner.stopping import Finished, StopReason, stop_reason


@dataclass(frozen=True, kw_only=True)
class TrialSummary:
    """The summary of one trial over its runs."""

    runs: dict[int, Record]  # all of them, by repeat
    framework_version: str | None
    statuses: tuple[Status, ...]
    error: Error | None  # the first one
    stop_reason: StopReason | None  # why it got no further run; None where it needs one
    rates: dict[int, float]  # samples per second of each run with status ok, by repeat
    samples_per_s: stats.Summary
    first_step_s: float | None
    epoch_s: float | None
    accuracy: float | None  # on the test split, after the last epoch
    host_rss_peak_bytes: int | None
    device_peak_bytes: int | None
    energy: Energy | None  # of the run with the median gross joules per sample
    parity: Parity
    warnings: tuple[ReportWarning, ...]

    @property
    def record(self) -> Record:
        """Any of its runs, for the values that all runs share."""
        return next(iter(self.runs.values()))

    @property
    def tokens_per_s(self) -> float | None:
        """The median rate in tokens; None where the model takes no tokens."""
        make, rate = MODELS.get(self.record.workload.model), self.samples_per_s.median
        model = make() if make else None
        if rate is None or model is None or not model.takes_tokens:
            return None
        return rate * model.input_shape[0]

    @property
    def status(self) -> str:
        """`ok` where every run is ok, else the first other status."""
        return next((status for status in self.statuses if status != "ok"), "ok")


def summarise(records: Iterable[Record]) -> list[TrialSummary]:
    """The trials, fastest first; trials without a rate last."""
    finished = Finished(records)
    trials = {
        name: sorted(runs, key=lambda run: run.repeat) for name, runs in finished.by_trial.items()
    }
    differing = agreement.warnings(trials)
    summaries = [
        _trial(runs, finished.spent_s, differing.get(name, ())) for name, runs in trials.items()
    ]
    return sorted(summaries, key=lambda each: -(each.samples_per_s.median or 0))


def _trial(runs: list[Record], spent: float, differs: tuple[ReportWarning, ...]) -> TrialSummary:
    ok = [run for run in runs if run.status == "ok"]
    rates = {run.repeat: run.samples_per_s for run in ok if run.samples_per_s}
    epochs = [run.epochs[-1] for run in ok if run.epochs]
    return TrialSummary(
        runs={run.repeat: run for run in runs},
        framework_version=next((run.framework_version for run in ok), None),
        statuses=tuple(run.status for run in runs),
        error=next((run.error for run in runs if run.error), None),
        stop_reason=stop_reason(runs, runs[0].repeats, spent_s=spent),
        rates=rates,
        samples_per_s=stats.summarise([*rates.values()]),
        first_step_s=_median([run.times.first_step_s for run in ok]),
        epoch_s=_median([epoch.duration_s for epoch in epochs]),
        accuracy=_median([epoch.test_accuracy for epoch in epochs]),
        device_peak_bytes=max((run.memory.device_peak_bytes or 0 for run in ok), default=0) or None,
        host_rss_peak_bytes=max((run.memory.host_rss_peak_bytes or 0 for run in ok), default=0)
        or None,
        energy=_energy(ok),
        parity=parity_of(runs),
        warnings=warnings_of(runs) + differs,
    )


def _energy(runs: Sequence[Record]) -> Energy | None:
    """The energy of the run with the median gross joules per sample."""
    energies = (run.energy for run in runs)
    known = sorted(filter(None, energies), key=lambda each: each.gross_j_per_sample)
    return known[(len(known) - 1) // 2] if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
