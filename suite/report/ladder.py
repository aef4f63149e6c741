"""The ladder: the latency of one image in each framework, and the lines of code that it takes.

A run of the ladder has the file `ladder.json` in its folder: for each framework, the rung and the
lines of its hand-written script (docs/explanation/inference.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, RootModel, ValidationError

from suite.paths import MANIFESTS
from suite.report.numbers import MICROSECONDS, Unit, latency_of, latency_unit, number, rate_of
from suite.report.table import (
    INTERVAL,
    LINES,
    OFFLINE_RATE,
    OVER_LOWEST,
    TRAINING_LINES,
    TRAINING_RATE,
)
from suite.results import store

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

SUITE = "ladder"


class Rung(BaseModel):
    """What is known of a framework's script."""

    rung: int  # 1 is the lowest
    inference_lines: int
    training_lines: int | None = None


Rungs = RootModel[dict[str, Rung]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One framework on the ladder."""

    trial: TrialSummary  # the fastest proven one of scenario single_stream
    rung: int
    latency_s: float
    spread: float | None  # of the latency: half its interval over the median
    p99_s: float | None
    over_lowest: float | None  # over the lowest rung, as a share of its latency
    overhead_share: float | None  # of a null model in the latency
    offline_samples_per_s: float | None  # of the fastest proven trial of scenario offline
    training_samples_per_s: float | None  # of the fastest proven training; None where there is none
    lines: int
    training_lines: int | None


def keep(folder: Path) -> None:
    """Copy the rungs into a run's folder; raise OSError where that fails."""
    (folder / store.LADDER).write_bytes((MANIFESTS / store.LADDER).read_bytes())


def read(folder: Path) -> dict[str, Rung]:
    """The rungs by framework; none where the run is not of the ladder, or the file is damaged."""
    try:
        return Rungs.model_validate_json((folder / store.LADDER).read_bytes()).root
    except (OSError, ValidationError):
        return {}


def rows(trials: Sequence[TrialSummary], rungs: dict[str, Rung]) -> list[Row]:
    """A row for each framework with a rung and a latency, the lowest rung first.

    The overhead is that over the fastest framework of the lowest rung that was measured.
    """
    found = {name: each for name in rungs if (each := _best(trials, name, "single_stream"))}
    lowest = min((rungs[name].rung for name in found), default=0)
    base = max(
        (each.speed for name, each in found.items() if rungs[name].rung == lowest), default=0
    )
    made = [_row(trial, rungs[name], base, trials) for name, trial in found.items()]
    return sorted(made, key=lambda each: (each.rung, each.latency_s))


def _row(trial: TrialSummary, rung: Rung, base: float, trials: Sequence[TrialSummary]) -> Row:
    queries = trial.queries
    return Row(
        trial=trial,
        rung=rung.rung,
        latency_s=1 / trial.speed,
        spread=trial.measured.spread,
        p99_s=queries.percentiles_s.get("99") if queries else None,
        over_lowest=base / trial.speed - 1,
        overhead_share=queries.overhead_share if queries else None,
        offline_samples_per_s=_rate(trials, trial.record.framework, "offline"),
        training_samples_per_s=_rate(trials, trial.record.framework, None),
        lines=rung.inference_lines,
        training_lines=rung.training_lines,
    )


def _rate(trials: Sequence[TrialSummary], framework: str, scenario: str | None) -> float | None:
    """The rate of a framework's fastest proven trial; None where it has none."""
    found = _best(trials, framework, scenario)
    return found.samples_per_s.median if found else None


def _best(
    trials: Sequence[TrialSummary], framework: str, scenario: str | None
) -> TrialSummary | None:
    """The fastest proven trial of a framework in a scenario; None is training."""
    fitting = (
        each
        for each in trials
        if each.record.framework == framework
        and each.record.workload.scenario == scenario
        and each.parity.proven
        and each.speed
    )
    return max(fitting, key=lambda each: each.speed, default=None)


def unit_of(rows: Sequence[Row]) -> Unit:
    """The unit of all latencies of the ladder."""
    return latency_unit(row.latency_s for row in rows) if rows else MICROSECONDS


def cells_of(row: Row, label: str, unit: Unit) -> dict[str, str]:
    """The cells of a row, by column; `label` names its trial."""
    return {
        "rung": str(row.rung),
        "framework": label,
        "p50": latency_of(row.latency_s, unit),
        INTERVAL: number(row.spread, "±{:.1%}"),
        "p99": latency_of(row.p99_s, unit),
        OVER_LOWEST: number(row.over_lowest, "{:+.0%}"),
        "overhead": number(row.overhead_share, "{:.1%}"),
        OFFLINE_RATE: rate_of(row.offline_samples_per_s),
        TRAINING_RATE: rate_of(row.training_samples_per_s),
        LINES: str(row.lines),
        TRAINING_LINES: number(row.training_lines, "{}"),
    }
