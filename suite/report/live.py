"""Progress on standard error: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import RenderableType
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run, Trial
from suite.report.table import console, rate_of
from suite.results.record import Record
from suite.runner.costs import Costs
from suite.runner.durations import shown
from suite.runner.progress import Stage
from suite.runner.remaining import Remaining
from suite.worker import host

if TYPE_CHECKING:
    from suite.runner.estimate import Estimate

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warming up",
    "warmup": "warming up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}
MANY = 20  # trials: with more, only those whose run is in progress have a line


class _Lines(Bars):
    """Lines in columns, below an overview that takes the whole width."""

    overview: Callable[[], str] = staticmethod(lambda: "")

    def get_renderables(self) -> Iterator[RenderableType]:
        if shown := self.overview():
            yield Text(shown, no_wrap=True, overflow="ellipsis")
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
        self._bars.overview = self._overview
        self._plan: Plan | None = None
        self._planned_stages: tuple[Stage, ...] = ()
        self._stage: Stage | None = None
        self._stage_started_s = 0.0
        self._finished: list[Stage] = []
        self._estimate: Estimate | None = None
        self._remaining: Remaining | None = None
        self._runs_left_s = 0.0
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

    def announce(self, text: str) -> None:
        """Show a line that stays."""
        self._bars.console.print(text, soft_wrap=True, markup=False)

    def planned(
        self, plan: Plan, stages: tuple[Stage, ...], finished: Sequence[Record] = ()
    ) -> None:
        """Show the stages of the plan, and the estimated duration of its runs."""
        self._plan, self._planned_stages = plan, stages
        self._counts = _counts(plan)
        if "runs" in stages:
            self._remaining = Remaining(Costs(plan=plan, cores=len(host.cpus())), finished)
            self._runs_left_s = self._remaining.runs_s()

    def estimated(self, estimate: Estimate) -> None:
        """Show the remaining time of the whole plan by this estimate."""
        self._estimate, self._plan = estimate, estimate.costs.plan
        self._counts = _counts(estimate.costs.plan)
        if self._remaining:
            self._remaining.estimated(estimate.costs)
            self._runs_left_s = self._remaining.runs_s()

    def stage(self, stage: Stage) -> None:
        """Show that a stage starts; before the runs, show a line for each trial.

        The trials that differ only in their seed share a line.
        """
        if self._stage:
            self._finished.append(self._stage)
        self._stage, self._stage_started_s = stage, time.monotonic()
        self._clear_messages()
        if stage == "runs" and self._plan and not self._many:
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
        if self._remaining:
            self._remaining.done(record)
            self._runs_left_s = self._remaining.runs_s()
        self._show(run, record.status, rate, error)
        if self._many and _line(run.trial) in self._lines:
            self._bars.remove_task(self._lines.pop(_line(run.trial)))
        if not self._console.is_terminal:
            parts = (_name(run.trial), self._counts.get(run.name, ""), record.status, rate, error)
            self._console.print(" ".join(part for part in parts if part), soft_wrap=True)

    @property
    def _many(self) -> bool:
        return self._plan is not None and len(set(map(_line, self._plan.trials))) > MANY

    def _overview(self) -> str:
        return f"{self._stages()}  {self._time_left()}" if self._plan else ""

    def _stages(self) -> str:
        """All stages on one line: finished ones with a check mark, the current one in brackets."""
        return "  ".join(
            f"[{each}]" if each == self._stage else f"{each} ✓" if each in self._finished else each
            for each in self._planned_stages
        )

    def _time_left(self) -> str:
        """The remaining time: of the runs, or with an estimate of everything."""
        if not self._remaining:
            return ""
        before_s = self._stages_left_s()
        subject = "all" if before_s else "runs"
        return f"{subject}: {shown(before_s + self._runs_left_s)} left"

    def _stages_left_s(self) -> float:
        """The remaining time of the stages before the runs."""
        left_s = dict(self._estimate.stages_s) if self._estimate else {}
        for stage in self._finished:
            left_s.pop(stage, None)
        if self._stage in left_s:
            elapsed_s = time.monotonic() - self._stage_started_s
            left_s[self._stage] = max(0.0, left_s[self._stage] - elapsed_s)
        return sum(left_s.values())

    def _clear_messages(self) -> None:
        for line in self._messages.values():
            self._bars.remove_task(line)
        self._messages.clear()

    def _add(self, text: str, phase: str = "") -> TaskID:
        return self._bars.add_task(text, run="", phase=phase, rate="", left="")

    def _show(self, run: Run, phase: str, rate: str, left: str) -> None:
        name = _line(run.trial)
        if self._many and name not in self._lines:
            self._lines[name] = self._add(_name(run.trial))
        if name in self._lines:
            count = self._counts.get(run.name, "")
            self._bars.update(self._lines[name], run=count, phase=phase, rate=rate, left=left)


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
