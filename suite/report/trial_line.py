"""One line of the live table: the runs of a trial so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from suite.protocol.events import Event
from suite.report.numbers import rate_of
from suite.results import stats
from suite.results.record import Record

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warm-up",
    "first_inference": "warm-up",
    "overhead": "measuring",
    "rate": "rate search",
    "warmup": "warm-up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}
BARS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 8
RATE_WIDTH, STATE_WIDTH = 13, 17  # "12,345 ±10.2%", "2/5 measuring 12 s"
FLOOR = 0.5  # the share of the largest value that the lowest bar stands for


@dataclass
class TrialLine:
    """The runs of one trial, or of trials that differ only in their seed."""

    runs: int  # at most
    finished: int = 0
    rates: list[float] = field(default_factory=list)  # samples/s of the finished runs
    blocks: list[float] = field(default_factory=list)  # samples/s of the current or last run
    state: str = "waiting"
    _longest_left_s: float = 0.0
    _left_s: float = 0.0

    def event(self, event: Event, count: str) -> bool:
        """Take the event of a run, which is the `count` ("2/5") of the line; whether it counts."""
        phase = PHASES.get(event["event"])
        if phase is None:
            return False
        if event["event"] == "started":
            self.blocks, self._longest_left_s = [], 0.0
        if "samples_per_s" in event:
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
        if record.samples_per_s:
            self.rates.append(record.samples_per_s)
        self.state = f"{count} {record.status}"
        if record.error:
            self.state += f": {record.error.message}"

    @property
    def completed(self) -> float:
        """The finished runs, and the finished share of the current one's measurement."""
        if not self._longest_left_s:
            return self.finished
        return self.finished + 1 - self._left_s / self._longest_left_s

    @property
    def rate(self) -> str:
        """The median of the finished runs with its interval; before them, that of the blocks."""
        summary = stats.summarise(self.rates or self.blocks)
        interval = (f"±{summary.spread:.1%}",) if summary.spread is not None else ()
        return " ".join((rate_of(summary.median), *interval)) if summary.runs else ""

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
