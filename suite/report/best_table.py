"""The best row of each framework, for each model and arithmetic, as a table."""

from __future__ import annotations

from rich.table import Table

from suite.manifests import catalog
from suite.report.best import best
from suite.report.numbers import number, rate_of
from suite.report.rates_table import title_of
from suite.report.summary import TrialSummary
from suite.report.table import of_rows

TITLE = "best proven row of each framework, for each model and arithmetic"
LEFT = ("model", "arithmetic", "devices", "framework", "variant", "track", "input")


def render(summaries: list[TrialSummary]) -> Table | None:
    """None where the run has no proven row, or one workload, whose own table shows the same."""
    rows = [_cells(trial) for trial in best(summaries)]
    if not rows or len({title_of(each) for each in summaries}) == 1:
        return None
    return of_rows(TITLE, rows, left=LEFT)


def _cells(trial: TrialSummary) -> dict[str, str]:
    record, workload = trial.record, trial.record.workload
    memory = trial.device_peak_bytes or trial.host_rss_peak_bytes
    return {
        "model": workload.model,
        "arithmetic": record.arithmetic,
        "devices": record.device,
        "framework": catalog.framework(record.framework).title,
        "variant": record.variant,
        "track": record.track,
        "batch": str(workload.batch_size),
        "input": workload.input,
        "samples/s": rate_of(trial.samples_per_s.median),
        "memory": number(memory / 2**20 if memory else None, "{:,.0f} MiB"),
    }
