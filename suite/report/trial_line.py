"""One line of the live table: the runs of a trial so far."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from suite.protocol.events import Event
from suite.report.numbers import rate_of, value_of
from suite.results import stats
from suite.results.metric import metric_of, values_of
from suite.results.record import Record

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warm-up",
    "warmup": "warm-up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}
OF_INFERENCE = {
    "started": "building",
    "built": "first call",
    "first_inference": "warm-up",
    "warmed": "null model",
    "overhead": "measuring",
    "rate": "rate search",
    "inference": "answers",
    "finished": "done",
}
BARS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 8
RATE_WIDTH, STATE_WIDTH = 13, 17  # "12,345 ±10.2%" or "274 µs ±1.2%", "2/5 measuring 12 s"
FLOOR = 0.5  # the share of the largest value that the lowest bar stands for


@dataclass
class TrialLine:
    """The runs of one trial, or of trials that differ only in their seed."""

    runs: int  # at most
    scenario: str | None = None  # of inference
    finished: int = 0
    values: list[float] = field(default_factory=list)  # the metric of the finished runs
    blocks: list[float] = field(default_factory=list)  # samples/s of the current or last run
    state: str = "waiting"
    _longest_left_s: float = 0.0
    _left_s: float = 0.0

    def event(self, event: Event, count: str) -> bool:
        """Take the event of a run, which is the `count` ("2/5") of the line; whether it counts."""
        phase = (OF_INFERENCE if self.scenario else PHASES).get(event["event"])
        if phase is None:
            return False
        if self.scenario == "server" and event["event"] == "overhead":
            phase = OF_INFERENCE["rate"]
        if event["event"] == "started":
            self.blocks, self._longest_left_s = [], 0.0
        if "samples_per_s" in event and not self.scenario:
            self.blocks.append(event["samples_per_s"])
        left = ""
        if "left_s" in event:
            self._left_s = event["left_s"]
            self._longest_left_s = max(self._longest_left_s, self._left_s)
            left = f" {self._left_s:.0f} s"
        self.state = f"{count} {phase}{left}"
        return True

    def done(self, record: Record, count: str) -> None:
        """Take the record of a run."""
        self.finished += 1
        self._longest_left_s = 0.0
        self.values += values_of([record]).values()
        self.state = f"{count} {record.status}"
        if record.error:
            self.state += f": {record.error.first_line}"

    @property
    def completed(self) -> float:
        """The finished runs, and the finished share of the current one's measurement."""
        if not self._longest_left_s:
            return self.finished
        return self.finished + 1 - self._left_s / self._longest_left_s

    @property
    def rate(self) -> str:
        """The median rate or p50 latency of the finished runs with its interval.

        Before the first one is finished, it is the median rate of the blocks, without an interval:
        a bootstrap would take the cores of the worker that is timed.
        """
        if not self.values:
            return rate_of(statistics.median(self.blocks)) if self.blocks else ""
        summary, metric = stats.summarise(self.values), metric_of(self.scenario)
        interval = (f"±{summary.spread:.1%}",) if summary.spread is not None else ()
        return " ".join((value_of(summary.median, metric), *interval))

    @property
    def sparkline(self) -> str:
        """A bar for each of the last blocks, from half of the largest rate to the largest."""
        return sparkline(self.blocks[-BAR_WIDTH:])


def sparkline(values: Sequence[float]) -> str:
    """A character for each value; the lowest stands for FLOOR times the largest, and below."""
    largest = max(values, default=0.0)
    shares = [(value / largest - FLOOR) / (1 - FLOOR) if largest else 0.0 for value in values]
    return "".join(BARS[max(0, round(share * (len(BARS) - 1)))] for share in shares)


class _Bar(BarColumn):
    """The bar of a trial's line; nothing in the line of a message."""

    def render(self, task: Task) -> RenderableType:  # type: ignore[override]
        return super().render(task) if task.fields["rate"] or task.fields["state"] else Text()


def columns(width: int, longest_name: int) -> tuple[ProgressColumn, ...]:
    """The columns that fit into `width` characters beside names of this length."""
    free = width - sum(size + 1 for size in (1, longest_name, RATE_WIDTH, STATE_WIDTH))
    bar = (_Bar(bar_width=BAR_WIDTH),) if free > BAR_WIDTH else ()
    blocks = (TextColumn("{task.fields[blocks]}"),) if free > 2 * BAR_WIDTH + 1 else ()
    folded = Column(overflow="fold", ratio=1)
    return (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}"),
        *bar,
        *blocks,
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[state]}", table_column=folded, markup=False),
    )
