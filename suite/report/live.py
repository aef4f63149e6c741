"""Progress on standard error: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import RenderableType
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run, Trial
from suite.report.table import console, rate_of
from suite.results.record import Record
from suite.runner.progress import Stage

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warming up",
    "warmup": "warming up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}
START_S = 6.0  # assumed duration of a run's start, until the first run has ended


class _Lines(Bars):
    """Lines in columns, below an overview that takes the whole width."""

    overview = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        if self.overview:
            yield Text(self.overview, no_wrap=True, overflow="ellipsis")
        yield self.make_tasks_table(self.tasks)


class Live:
    """A context manager that shows progress; it implements `runner.progress.Progress`."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bars = _Lines(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[run]}"),
            TextColumn("{task.fields[phase]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._plan: Plan | None = None
        self._planned_stages: tuple[Stage, ...] = ()
        self._runs = 0
        self._stage: Stage | None = None
        self._finished: list[Stage] = []
        self._durations_s: list[float] = []
        self._lines: dict[str, TaskID] = {}  # by `_line` of the trial
        self._counts: dict[str, str] = {}  # "run 2/5" by the name of the run
        self._messages: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def notify(self, text: str) -> None:
        """Show a message; it replaces an earlier one on the same topic ("PyTorch: ...")."""
        if not self._console.is_terminal:
            # A package installer sends hundreds of messages: too many for a log.
            if "downloading" not in text and "collecting" not in text:
                self._console.print(text, soft_wrap=True)
            return
        topic = text.partition(":")[0]
        if topic not in self._messages:
            self._messages[topic] = self._add(text)
        self._bars.update(self._messages[topic], description=text)

    def planned(self, plan: Plan, stages: tuple[Stage, ...], runs: int) -> None:
        """Show the stages of the plan, and the estimated duration of its runs."""
        self._plan, self._planned_stages, self._runs = plan, stages, runs
        self._counts = _counts(plan)
        self._show_overview()

    def stage(self, stage: Stage) -> None:
        """Show that a stage starts; before the runs, show a line for each trial.

        The trials that differ only in their seed share a line.
        """
        if self._stage:
            self._finished.append(self._stage)
        self._stage = stage
        self._clear_messages()
        self._show_overview()
        if stage == "runs" and self._plan:
            for line, name in {_line(each): _name(each) for each in self._plan.trials}.items():
                self._lines[line] = self._add(name, phase="waiting")

    def event(self, run: Run, event: Event) -> None:
        """Show the phase of a run, with its rate and the remaining time where they are known."""
        phase = PHASES.get(event["event"])
        if phase is None:
            return
        rate = f"{rate_of(event['samples_per_s'])} samples/s" if "samples_per_s" in event else ""
        left = f"{event['left_s']:.0f} s left" if "left_s" in event else ""
        self._show(run, phase, rate, left)

    def done(self, run: Run, record: Record) -> None:
        """Show the result of a run."""
        rate = f"{rate_of(record.samples_per_s)} samples/s" if record.samples_per_s else ""
        error = record.error.message if record.error else ""
        self._durations_s.append((record.times.total_s or 0.0) / record.interleaved)
        self._show(run, record.status, rate, error)
        self._show_overview()
        if not self._console.is_terminal:
            parts = (_name(run.trial), self._counts.get(run.name, ""), record.status, rate, error)
            self._console.print(" ".join(part for part in parts if part), soft_wrap=True)

    def _show_overview(self) -> None:
        if self._plan:
            self._bars.overview = f"{self._stages()}  {self._time_left(self._plan)}"

    def _stages(self) -> str:
        """All stages on one line: finished ones with a check mark, the current one in brackets."""
        return "  ".join(
            f"[{each}]" if each == self._stage else f"{each} ✓" if each in self._finished else each
            for each in self._planned_stages
        )

    def _time_left(self, plan: Plan) -> str:
        """The remaining time of the runs, estimated from the finished ones, or from the plan."""
        measure, done = plan.measure, len(self._durations_s)
        at_most_s = START_S + measure.max_warmup_blocks * measure.block_s + measure.max_measure_s
        run_s = sum(self._durations_s) / done if done else at_most_s
        if not self._runs:
            return ""
        left_s = run_s * max(0, self._runs - done)
        return f"runs: {left_s / 60:.0f} min left" if left_s >= 60 else f"runs: {left_s:.0f} s left"

    def _clear_messages(self) -> None:
        for line in self._messages.values():
            self._bars.remove_task(line)
        self._messages.clear()

    def _add(self, text: str, phase: str = "") -> TaskID:
        return self._bars.add_task(text, run="", phase=phase, rate="", left="")

    def _show(self, run: Run, phase: str, rate: str, left: str) -> None:
        line = self._lines.get(_line(run.trial))
        if line is not None:
            count = self._counts.get(run.name, "")
            self._bars.update(line, run=count, phase=phase, rate=rate, left=left)


def _counts(plan: Plan) -> dict[str, str]:
    """The number of each run among those of its line, by the name of the run."""
    lines: dict[str, list[str]] = {}
    for run in plan.runs:
        lines.setdefault(_line(run.trial), []).append(run.name)
    return {
        name: f"run {number}/{len(names)}"
        for names in lines.values()
        for number, name in enumerate(names, start=1)
    }


def _line(trial: Trial) -> str:
    """A key that is equal for trials that differ only in their seed."""
    return replace(trial, seed=0).trial_id


def _name(trial: Trial) -> str:
    workload = trial.workload
    precision = "" if workload.precision == "float32" else f" {workload.precision}"
    return f"{trial.configuration} {workload.model}{precision}"
