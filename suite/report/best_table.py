"""The best row of each framework, for each model and arithmetic, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group

from suite.report.best import best
from suite.report.numbers import UNKNOWN, Unit, latency_of, latency_unit, mebibytes, rate_of
from suite.report.table import PIPED_WIDTH, TOKENS, known_columns, of_rows
from suite.report.titles import framework_of, work_of

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

TITLE = "best proven row of each framework, for each model and arithmetic"
OF_INFERENCE = "best proven row of each framework, for each model and scenario"
# Columns that a narrow terminal leaves out, the least important first.
DISPENSABLE = (TOKENS, "input", "devices", "memory", "track", "arithmetic")
LEFT = ("model", "arithmetic", "scenario", "devices", "framework", "variant", "track", "input")


def render(summaries: Sequence[TrialSummary], width: int = PIPED_WIDTH) -> Group | None:
    """A table of training, and one of inference; None where there is none.

    Where `width` is too small, whole columns are omitted.
    """
    found = [
        of_rows(title, rows, left=LEFT, width=width, dispensable=DISPENSABLE)
        for title, rows in tables(summaries)
    ]
    return Group(*found) if found else None


def tables(summaries: Sequence[TrialSummary]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The title and the rows of each table.

    Nothing where the run has no proven row, or one workload, whose own table shows the same.
    """
    training = [each for each in summaries if each.record.workload.mode == "train"]
    if _several(training) and (rows := [_cells(trial) for trial in best(training)]):
        yield TITLE, known_columns(rows, (TOKENS,))
    inference = [each for each in summaries if each.record.workload.mode == "infer"]
    unit = latency_unit(each.measured.median for each in inference if _is_latency(each))
    if _several(inference) and (
        rows := [_inference_cells(trial, unit) for trial in best(inference)]
    ):
        yield f"{OF_INFERENCE}, latencies in {unit.symbol}", rows


def _is_latency(trial: TrialSummary) -> bool:
    return trial.metric.lower_is_better


def _several(summaries: Sequence[TrialSummary]) -> bool:
    return len({work_of(each) for each in summaries}) > 1


def _cells(trial: TrialSummary) -> dict[str, str]:
    record, workload = trial.record, trial.record.workload
    return {
        "model": workload.model,
        "arithmetic": record.arithmetic,
        "devices": record.device,
        **_configuration(trial),
        "batch": str(workload.batch_size),
        "input": workload.input,
        "samples/s": rate_of(trial.samples_per_s.median),
        TOKENS: rate_of(trial.tokens_per_s),
        "memory": mebibytes(trial.memory_bytes),
    }


def _inference_cells(trial: TrialSummary, unit: Unit) -> dict[str, str]:
    workload, found = trial.record.workload, trial.measured.median
    rate = trial.samples_per_s.median if _is_latency(trial) else found
    return {
        "model": workload.model,
        "scenario": workload.scenario or UNKNOWN,
        "devices": trial.record.device,
        **_configuration(trial),
        "batch": str(workload.batch_size),
        "p50": latency_of(found, unit) if _is_latency(trial) else UNKNOWN,
        "samples/s": rate_of(rate),
        "memory": mebibytes(trial.memory_bytes),
    }


def _configuration(trial: TrialSummary) -> dict[str, str]:
    record = trial.record
    return {
        "framework": framework_of(record),
        "variant": record.variant,
        "track": record.track,
    }
