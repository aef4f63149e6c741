"""The section of runs: each trial with its figures, and a table of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report.figures.figure import Tags, tags_of
from suite.report.figures.runs import blocks, telemetry
from suite.report.html.parts import Plot, Row, Table
from suite.report.numbers import UNKNOWN, mebibytes, number, rate_of, with_unit, yes_no
from suite.report.summary import TrialSummary
from suite.report.table import known_columns
from suite.report.titles import title_of
from suite.results.metric import LATENCY
from suite.results.record import Record

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST_DRAWN = 12  # trials with figures
MOST_TABLES = 100  # trials with a table


@dataclass(frozen=True, kw_only=True)
class Detail:
    """One trial."""

    title: str
    plots: Sequence[Plot]
    table: Table
    tags: Tags


def details(run: RunData) -> dict[str, list[Detail]]:
    """The first trials of each workload, by its title; the first of these have figures."""
    shown = run.trials[:MOST_TABLES]
    drawn = run.only(shown[:MOST_DRAWN])
    plots: dict[str, list[Plot]] = {}
    for make in (blocks, telemetry):
        for figure in make(drawn):
            plots.setdefault(figure.about, []).append(Plot(figure=figure))
    found: dict[str, list[Detail]] = {}
    for trial in shown:
        detail = _detail(run, trial, plots.get(trial.record.trial_id, []))
        found.setdefault(title_of(trial), []).append(detail)
    return found


def _detail(run: RunData, trial: TrialSummary, plots: Sequence[Plot]) -> Detail:
    cells = known_columns([_cells(record) for record in trial.runs.values()])
    return Detail(
        title=run.label(trial),
        plots=plots,
        table=Table(
            caption=f"Runs of {run.label(trial)}",
            rows=[Row(cells=row) for row in cells],
            about=title_of(trial),
        ),
        tags=tags_of(trial),
    )


def _cells(run: Record) -> dict[str, str]:
    found, warm = run.telemetry, sum(run.blocks.warmup)
    gpu, energy = found.gpu if found else None, run.energy
    training = run.workload.mode == "train"
    first = "first step" if training else "first inference"
    first_s = run.times.first_step_s if training else run.times.first_result_s
    blocks = f"{warm} warm-up, {len(run.blocks.warmup) - warm} timed"
    return {
        "run": f"run {run.repeat}",
        "status": run.status,
        **_of_queries(run),
        "samples/s": rate_of(run.samples_per_s),
        "blocks": blocks if run.blocks.warmup else UNKNOWN,
        "steady": UNKNOWN if run.steady is None else yes_no(run.steady),
        "build": number(run.times.build_s, "{:.2f} s"),
        first: number(first_s, "{:.2f} s"),
        "whole run": number(run.times.total_s, "{:.1f} s"),
        "memory": mebibytes(run.memory.host_rss_peak_bytes),
        "device memory": mebibytes(run.memory.device_peak_bytes),
        "cores": number(run.cores_used, "{:.2f}"),
        "others' cores": number(run.other_cores, "{:.2f}"),
        "GPU busy": number(gpu.utilisation if gpu else None, "{:.0%}"),
        "GPU clock": number(gpu.sm_clock_mhz if gpu else None, "{:.0f} MHz"),
        "GPU temperature": number(gpu.temperature_max_c if gpu else None, "{:.0f} °C"),
        "energy": number(energy.gross_j if energy else None, "{:.1f} J"),
        "J/sample": number(energy.gross_j_per_sample if energy else None, "{:.3g}"),
    }


def _of_queries(run: Record) -> dict[str, str]:
    """The queries of a run of inference."""
    found = run.inference
    latencies = found.percentiles_s if found else {}
    overhead = found.overhead_share if found else None
    return {
        **{f"p{name}": with_unit(latencies.get(name), LATENCY) for name in ("50", "90", "99")},
        "queries/s": rate_of(found.rate_per_s if found else None),
        "queries": number(found.queries if found else None, "{:,}"),
        "overhead": number(overhead, "{:.1%}"),
    }
