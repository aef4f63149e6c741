"""The scaling of a run as tables, one for each model, and the growth of its models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from rich.console import Group, RenderableType
from rich.text import Text

from suite.report.numbers import mebibytes, number, rate_of, yes_no
from suite.report.scaling import Row
from suite.report.summary import TrialSummary
from suite.report.table import PIPED_WIDTH, known_columns, markdown_of, of_rows

LEFT = ("configuration", "scaling", "devices", "model")
ENERGY = "J/sample"
ALL_REDUCE_RATE = "all-reduce rate"
# Columns that a narrow terminal leaves out, the least important first.
DISPENSABLE = (ALL_REDUCE_RATE, "step", "batch", ENERGY)
LEGEND = (
    "strong: one batch divided among the devices. weak: a batch for each device. speed-up: the "
    "ratio to the rate on one device of the same size, with its 95 % interval. efficiency: "
    "speed-up divided by the number of devices. all-reduce: of the gradients alone, by the same "
    "collectives. A step takes at least this much longer where a framework does not overlap "
    "communication with computation. all-reduce rate: bytes of the gradients of one rank over that "
    "duration."
)


def render(rows: Sequence[Row], width: int = PIPED_WIDTH) -> RenderableType:
    """The tables, with a legend below; where `width` is too small, columns are omitted."""
    parts: list[RenderableType] = []
    for model, group in groupby(rows, key=lambda row: row.trial.record.workload.model):
        title, cells = f"scaling of {model}", cells_of([*group])
        parts.append(of_rows(title, cells, left=LEFT, width=width, dispensable=DISPENSABLE))
    if growth := [*_growth(rows)]:
        title = "growth on one device: time and memory of models with more parameters"
        parts.append(of_rows(title, growth, left=LEFT))
    return Group(*parts, Text(LEGEND))


def markdown(rows: Sequence[Row]) -> str:
    """The same rows as one table in Markdown."""
    return markdown_of([{"model": row.trial.record.workload.model, **_cells(row)} for row in rows])


def _cells(row: Row) -> dict[str, str]:
    trial, record = row.trial, row.trial.record
    speed_up, low, high = row.speed_up, None, None
    if speed_up:
        low, high = speed_up.ci_low, speed_up.ci_high
    interval = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return {
        "configuration": row.name,
        "scaling": row.kind,
        "devices": record.device,
        "batch": str(record.workload.batch_size),
        "samples/s": rate_of(trial.samples_per_s.median),
        "speed-up": number(speed_up.ratio if speed_up else None, "{:.2f}") + interval,
        "efficiency": number(row.efficiency, "{:.2f}"),
        "step": number(_step_ms(trial), "{:.2f} ms"),
        "all-reduce": number(_exchange_ms(trial), "{:.2f} ms"),
        ALL_REDUCE_RATE: number(_exchange_gb_per_s(trial), "{:.2f} GB/s"),
        ENERGY: number(row.energy_j_per_sample, "{:.3g}"),
        "same work": yes_no(trial.parity.proven),
    }


def cells_of(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The cells of each row, by column, without the column of energy where none has a value."""
    return known_columns([_cells(row) for row in rows], (ENERGY,))


def _growth(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Each model on one device, by framework and number of parameters."""
    bases = [row for row in rows if row.kind == "base"]
    bases.sort(key=lambda each: (each.name, each.trial.record.parameters or 0))
    for row in bases:
        trial, record, rate = row.trial, row.trial.record, row.trial.samples_per_s.median
        yield {
            "configuration": row.name,
            "model": record.workload.model,
            "parameters": number(record.parameters, "{:,}"),
            "batch": str(record.workload.batch_size),
            "step": number(_step_ms(trial), "{:.2f} ms"),
            "samples/s": rate_of(rate),
            "memory": mebibytes(trial.memory_bytes),
        }


def _step_ms(trial: TrialSummary) -> float | None:
    rate = trial.samples_per_s.median
    return trial.record.workload.batch_size / rate * 1e3 if rate else None


def _exchange_gb_per_s(trial: TrialSummary) -> float | None:
    """The bytes of one rank's gradients, which are in float32, over the duration."""
    milliseconds, parameters = _exchange_ms(trial), trial.record.parameters
    return 4e-6 * parameters / milliseconds if milliseconds and parameters else None


def _exchange_ms(trial: TrialSummary) -> float | None:
    """The median over the runs; None on one device."""
    known = [each.times.exchange_s for each in trial.runs.values() if each.status == "ok"]
    times = [each for each in known if each is not None]
    return median(times) * 1e3 if times else None
