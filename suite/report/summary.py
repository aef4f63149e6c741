"""Summarises the records of one run, trial by trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from suite.models import sequence_length
from suite.report import agreement, inference
from suite.report.inference import Queries
from suite.report.warning import ReportWarning
from suite.report.warnings import warnings_of
from suite.results import stats
from suite.results.metric import Metric, metric_of, values_of
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
    values: dict[int, float]  # the metric of each run with status ok, by repeat
    measured: stats.Summary  # the metric
    samples_per_s: stats.Summary
    queries: Queries | None  # None in training
    build_s: float | None
    first_step_s: float | None
    first_result_s: float | None
    epoch_s: float | None
    # On the test split, after the last epoch; in inference, of the user's weights.
    accuracy: float | None
    test_loss: float | None
    host_rss_peak_bytes: int | None
    device_peak_bytes: int | None
    energy: Energy | None  # of the run with the median gross joules per sample
    parity: Parity
    warnings: tuple[ReportWarning, ...]

    @property
    def record(self) -> Record:
        """The first run that is ok, else the first one, for the values that all runs share.

        Only a run whose worker started knows the worker's device.
        """
        runs = self.runs.values()
        return next((run for run in runs if run.status == "ok"), next(iter(runs)))

    @property
    def memory_bytes(self) -> int | None:
        """The peak of the device's memory, or on a CPU that of the worker's resident memory."""
        on_device = self.record.devices.kind != "cpu"
        return self.device_peak_bytes if on_device else self.host_rss_peak_bytes

    @property
    def metric(self) -> Metric:
        """What the trial is compared by."""
        return metric_of(self.record.workload.scenario)

    @property
    def speed(self) -> float:
        """More is faster: the median rate, or one over the latency; 0 where it is unknown."""
        found = self.measured.median
        if not found:
            return 0.0
        return 1 / found if self.metric.lower_is_better else found

    @property
    def tokens_per_s(self) -> float | None:
        """The median rate in tokens; None where the model takes no tokens."""
        length, rate = sequence_length(self.record.workload.model), self.samples_per_s.median
        return None if rate is None or length is None else rate * length

    @property
    def status(self) -> str:
        """`ok` where every run is ok, else the first other status."""
        return next((status for status in self.statuses if status != "ok"), "ok")


def summarise(records: Iterable[Record]) -> list[TrialSummary]:
    """The trials, fastest first; trials that measured nothing last."""
    finished = Finished(records)
    trials = {
        name: sorted(runs, key=lambda run: run.repeat) for name, runs in finished.by_trial.items()
    }
    differing = agreement.warnings(trials)
    summaries = [
        _trial(runs, finished.spent_s, differing.get(name, ())) for name, runs in trials.items()
    ]
    return sorted(summaries, key=lambda each: -each.speed)


def _trial(runs: list[Record], spent: float, differs: tuple[ReportWarning, ...]) -> TrialSummary:
    ok = [run for run in runs if run.status == "ok"]
    values = values_of(ok)
    epochs = [run.epochs[-1] for run in ok if run.epochs]
    parity = parity_of(runs)
    return TrialSummary(
        runs={run.repeat: run for run in runs},
        framework_version=next((run.framework_version for run in ok), None),
        statuses=tuple(run.status for run in runs),
        error=next((run.error for run in runs if run.error), None),
        stop_reason=stop_reason(runs, runs[0].repeats, spent_s=spent),
        values=values,
        measured=stats.summarise([*values.values()]),
        samples_per_s=stats.summarise([run.samples_per_s for run in ok if run.samples_per_s]),
        queries=inference.of_runs(ok),
        build_s=_median([run.times.build_s for run in ok]),
        first_step_s=_median([run.times.first_step_s for run in ok]),
        first_result_s=_median([run.times.first_result_s for run in ok]),
        epoch_s=_median([epoch.duration_s for epoch in epochs]),
        accuracy=parity.accuracy
        if runs[0].workload.scenario
        else _median([epoch.test_accuracy for epoch in epochs]),
        test_loss=_median([epoch.test_loss for epoch in epochs]),
        device_peak_bytes=max((run.memory.device_peak_bytes or 0 for run in ok), default=0) or None,
        host_rss_peak_bytes=max((run.memory.host_rss_peak_bytes or 0 for run in ok), default=0)
        or None,
        energy=_energy(ok),
        parity=parity,
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
