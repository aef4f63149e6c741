"""The summary of a run as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pydantic_core import to_json

from suite.report import ladder, throughput
from suite.report.best import ids
from suite.report.ladder import Rung
from suite.report.summary import TrialSummary
from suite.results import stats
from suite.results.roofline import HardwarePeak, share

IDENTITY = (
    "trial_id",
    "framework",
    "variant",
    "track",
    "arithmetic",
    "device",
    "interleaved",
    "seed",
)


def render(
    run_id: str,
    summaries: list[TrialSummary],
    missing: list[str],
    peak: HardwarePeak | None = None,
    notes: Iterable[str] = (),
    convergence: list[dict[str, Any]] | None = None,
    rungs: dict[str, Rung] | None = None,
) -> str:
    """One object: the run id, the trials, fastest first, the missing runs, notes, and the peak.

    `convergence` has the comparisons of accuracies of a run with several seeds; None for others.
    `rungs` are those of a run of the ladder.
    """
    best, knees = ids(summaries), throughput.knees(summaries)
    values = {
        "run_id": run_id,
        "trials": [
            _trial(each, peak) | {"best": _id(each) in best, "knee": _id(each) in knees}
            for each in summaries
        ],
        "missing": missing,
        "notes": list(notes),
        "peak": peak.model_dump() if peak else None,
        "convergence": convergence,
        "ladder": [_rung(row) for row in ladder.rows(summaries, rungs or {})],
    }
    return to_json(values, indent=1).decode()


def _id(summary: TrialSummary) -> str:
    return summary.record.trial_id


def _trial(summary: TrialSummary, peak: HardwarePeak | None) -> dict[str, Any]:
    rate, record = summary.samples_per_s, summary.record
    reached = share(record, rate.median, peak)
    return {
        **{key: getattr(record, key) for key in IDENTITY},
        "workload": record.workload.model_dump(),
        "framework_version": summary.framework_version,
        "runs": rate.runs,
        "stop_reason": summary.stop_reason,
        "status": summary.status,
        "error": summary.error.model_dump() if summary.error else None,
        "samples_per_s": _summary(rate),
        "inference": _inference(summary),
        "tokens_per_s": summary.tokens_per_s,
        "peak_share": {**asdict(reached), "bound": reached.bound} if reached else None,
        "build_s": summary.build_s,
        "first_step_s": summary.first_step_s,
        "first_result_s": summary.first_result_s,
        "epoch_s": summary.epoch_s,
        "accuracy": summary.accuracy,
        "test_loss": summary.test_loss,
        "host_rss_peak_bytes": summary.host_rss_peak_bytes,
        "device_peak_bytes": summary.device_peak_bytes,
        "energy": summary.energy.model_dump() if summary.energy else None,
        "warnings": [asdict(warning) for warning in summary.warnings],
        "parity": summary.parity.model_dump(),
    }


def _rung(row: ladder.Row) -> dict[str, Any]:
    values = {name: value for name, value in vars(row).items() if name != "trial"}
    return {"trial_id": _id(row.trial), **values}


def _inference(summary: TrialSummary) -> dict[str, Any] | None:
    """The queries of a trial, with the interval of what it is compared by; None in training."""
    if summary.queries is None:
        return None
    server = summary.record.workload.scenario == "server"
    latency = summary.metric.lower_is_better
    return {
        "p50_s": _summary(summary.measured) if latency else None,
        "rate_per_s": _summary(summary.measured) if server else None,
        **asdict(summary.queries),
    }


def _summary(found: stats.Summary) -> dict[str, float | None]:
    return {"median": found.median, "ci_low": found.ci_low, "ci_high": found.ci_high}
