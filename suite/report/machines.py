"""Runs of several machines side by side: rates, and what a million samples cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from suite.errors import UsageError
from suite.report.numbers import UNKNOWN, number, rate_of, share_of_peak, yes_no
from suite.report.table import MFU, SAME_WORK, Fitted, known_columns, markdown_of, of_rows
from suite.report.titles import machine_of, work_on_any_device
from suite.results import rental
from suite.results.roofline import share

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

PRICE = re.compile(r"(\d+(?:\.\d+)?)(?:/h)?")
PER_HOUR, COST, COST_INTERVAL = "$/h", "$ per million", "its interval"
LEFT = ("machine", "configuration", "run")
DISPENSABLE = ("run", "runs", MFU)
NOTE = (
    "$ per million: the price of a million samples, price per hour / 3600 / rate x 10^6; its "
    "interval is that of the rate. One machine is one sample of its type."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A trial of one machine."""

    run: RunData
    trial: TrialSummary
    price_per_hour: float | None  # of the machine, in dollars

    def cost(self, rate_per_s: float | None) -> float | None:
        """Dollars for a million samples at this rate; None where one of both is unknown."""
        if self.price_per_hour is None or not rate_per_s:
            return None
        return self.price_per_hour / 3600 / rate_per_s * 1e6


def price_of(text: str) -> float:
    """Dollars per hour in a text as `2.5/h`; UsageError where it is none, or 0."""
    found = PRICE.fullmatch(text.strip().removeprefix("$"))
    if not found or not float(found[1]):
        raise UsageError(f"--price {text!r} is no price per hour above 0", hint="--price 2.5/h")
    return float(found[1])


def rows(runs: Sequence[RunData], prices: Sequence[float | None]) -> list[Row]:
    """The measured trials of all runs.

    `prices` has that of each run's machine; None is the price in the records of a rented one.
    """
    return [
        Row(run=run, trial=trial, price_per_hour=price or _listed(trial))
        for run, price in zip(runs, prices, strict=True)
        for trial in run.trials
        if trial.samples_per_s.median
    ]


def _listed(trial: TrialSummary) -> float | None:
    """The list price of a rented machine, when it was rented."""
    rented = rental.of_environment(trial.record.environment)
    return rented.price_per_hour if rented else None


def tables(found: Sequence[Row]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The title and the rows of each workload: the cheapest first, or else the fastest."""
    ordered = sorted(found, key=lambda row: (work_on_any_device(row.trial), *_rank(row)))
    for title, group in groupby(ordered, key=lambda row: work_on_any_device(row.trial)):
        yield (
            title,
            known_columns([_cells(row) for row in group], (PER_HOUR, COST, COST_INTERVAL, MFU)),
        )


def render(found: Sequence[Row], width: int) -> Group:
    """The tables for the terminal; where `width` is too small, whole columns are omitted."""
    parts: list[Fitted] = [
        of_rows(title, cells, left=LEFT, width=width, dispensable=DISPENSABLE)
        for title, cells in tables(found)
    ]
    return Group(*parts, Text(NOTE))


def markdown(found: Sequence[Row]) -> str:
    """The tables as Markdown."""
    parts = [
        part for title, cells in tables(found) for part in (f"### {title}", markdown_of(cells))
    ]
    return "\n\n".join([*parts, NOTE])


def _rank(row: Row) -> tuple[float, float]:
    rate = row.trial.samples_per_s.median or 0.0
    return row.cost(rate) or float("inf"), -rate


def _machine(trial: TrialSummary) -> str:
    """The machine, with its type and place where it is rented."""
    rented = rental.of_environment(trial.record.environment)
    type_of = f"{rented.machine_type} at {rented.place}" if rented else None
    return ": ".join(filter(None, (type_of, machine_of(trial.record))))


def _cells(row: Row) -> dict[str, str]:
    rate, trial = row.trial.samples_per_s, row.trial
    reached = share(trial.record, rate.median, row.run.peak)
    dearest, cheapest = row.cost(rate.ci_low), row.cost(rate.ci_high)
    interval = None
    if cheapest is not None and dearest is not None:
        interval = f"{cheapest:.3g} to {dearest:.3g}"
    ends = (rate.ci_low, rate.ci_high)
    return {
        "machine": _machine(trial),
        "configuration": trial.record.configuration,
        "run": row.run.folder.name,
        PER_HOUR: number(row.price_per_hour, "{:.4g}"),
        "samples/s": rate_of(rate.median),
        "interval": UNKNOWN if None in ends else " to ".join(map(rate_of, ends)),
        "runs": str(rate.runs),
        COST: number(row.cost(rate.median), "{:.3g}"),
        COST_INTERVAL: interval or UNKNOWN,
        MFU: share_of_peak(reached.compute) if reached else UNKNOWN,
        SAME_WORK: yes_no(trial.parity.proven),
    }
