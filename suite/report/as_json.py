"""The summary of a run as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from suite.limit import Limit, share
from suite.report.summary import TrialSummary

IDENTITY = (
    "trial_id",
    "framework",
    "variant",
    "track",
    "arithmetic",
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


def render(
    run_id: str,
    summaries: list[TrialSummary],
    missing: list[str],
    limit: Limit | None = None,
) -> str:
    """One object: run_id, its trials, fastest first, the planned runs without a record, and what
    the device can do at most.
    """
    values = {
        "run_id": run_id,
        "trials": [_trial(each, limit) for each in summaries],
        "missing": missing,
        "limit": limit.model_dump() if limit else None,
    }
    return json.dumps(values, indent=1)


def _trial(summary: TrialSummary, limit: Limit | None) -> dict[str, Any]:
    rate = summary.samples_per_s
    reached = share(summary.record, rate.median, limit)
    return {
        **{key: getattr(summary.record, key) for key in IDENTITY},
        "framework_version": summary.framework_version,
        "runs": rate.runs,
        "enough": summary.enough,
        "status": summary.status,
        "error": summary.error.model_dump() if summary.error else None,
        "samples_per_s": {
            "median": rate.median,
            "ci_low": rate.ci_low,
            "ci_high": rate.ci_high,
        },
        "of_limit": {**asdict(reached), "near": reached.near} if reached else None,
        "first_step_s": summary.first_step_s,
        "epoch_s": summary.epoch_s,
        "accuracy": summary.accuracy,
        "host_rss_peak_bytes": summary.host_rss_peak_bytes,
        "energy": summary.energy.model_dump() if summary.energy else None,
        "doubts": [asdict(doubt) for doubt in summary.doubts],
        "parity": summary.parity.model_dump(),
    }
