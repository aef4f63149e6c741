"""The summary of a run as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from suite.report.summary import TrialSummary

IDENTITY = (
    "trial_id",
    "framework",
    "variant",
    "track",
    "model",
    "dataset",
    "mode",
    "batch_size",
    "precision",
    "optimizer",
    "device",
)


def render(run_id: str, summaries: list[TrialSummary], missing: list[str]) -> str:
    """One object: run_id, its trials, fastest first, and the planned runs without a record."""
    trials = [_trial(each) for each in summaries]
    return json.dumps({"run_id": run_id, "trials": trials, "missing": missing}, indent=1)


def _trial(summary: TrialSummary) -> dict[str, Any]:
    rate = summary.samples_per_s
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
        "first_step_s": summary.first_step_s,
        "epoch_s": summary.epoch_s,
        "accuracy": summary.accuracy,
        "host_rss_peak_bytes": summary.host_rss_peak_bytes,
        "energy": summary.energy.model_dump() if summary.energy else None,
        "doubts": [asdict(doubt) for doubt in summary.doubts],
        "parity": summary.parity.model_dump(),
    }
