"""Progress on standard error: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import RenderableType
from rich.progress import Progress as Bars
from rich.progress import TaskID
from rich.text import Text

from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run, Trial
from suite.report.numbers import with_unit
from suite.report.table import console
from suite.report.trial_line import TrialLine, columns
from suite.results.metric import metric_of, values_of
from suite.results.record import Record
from suite.runner.costs import Costs
from suite.runner.durations import shown
from suite.runner.progress import Stage
from suite.runner.remaining import Remaining
from suite.worker import host

if TYPE_CHECKING:
    from suite.runner.estimate import Estimate

LINE_EVERY_S = 60.0  # seconds between lines that repeat the state, where lines stay
WARNING = "warning: "  # the beginning of a message that stays
MANY = 20  # trials: with more, only those whose run is in progress have a line


class _Lines(Bars):
    """Lines in columns, between other lines that take the whole width."""

    above: Callable[[], Iterable[str]] = staticmethod(lambda: ())
    below: Callable[[], Iterable[str]] = staticmethod(lambda: ())

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in self.above())
        yield self.make_tasks_table(self.tasks)
        yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in self.below())


class Live:
    """A context manager that shows progress; it implements `runner.progress.Progress`."""

    def __init__(self, clock: Callable[[], float] = lambda: time.monotonic()) -> None:
        self._clock = clock
        self._line_s = clock()
        self._running = ""  # the run that sent the last event
        self._done = 0
        self._console = console(stderr=True)
        self._bars = _Lines(
            *columns(self._console.width, 0),
            console=self._console,
            transient=True,
            disable=not self._console.is_interactive,
        )
        self._bars.above, self._bars.below = self._overview, self._shown_messages
        self._plan: Plan | None = None
        self._planned_stages: tuple[Stage, ...] = ()
        self._stage: Stage | None = None
        self._stage_started_s = 0.0
        self._finished: list[Stage] = []
        self._estimate: Estimate | None = None
        self._remaining: Remaining | None = None
        self._runs_left_s = 0.0
        self._trials: dict[str, TrialLine] = {}  # by `_line` of the trial
        self._lines: dict[str, TaskID] = {}  # those that are shown
        self._counts: dict[str, str] = {}  # "2/5" by the name of the run
        self._messages: dict[str, str] = {}  # the newest one on each topic

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._messages.clear()
        self._plan = None
        self._bars.stop()

    def notify(self, text: str) -> None:
        """Show a message; it replaces an earlier one on the same topic ("PyTorch: ...").

        A warning stays.
        """
        if not self._console.is_interactive:
            # A package installer sends hundreds of messages: too many for a log.
            if "downloading" not in text and "collecting" not in text:
                self._console.print(text, soft_wrap=True)
            self._each_minute()
            return
        if text.startswith(WARNING):
            self.announce(text)
        else:
            self._messages[text.partition(":")[0]] = text

    def announce(self, text: str) -> None:
        """Show a line that stays."""
        self._bars.console.print(text, soft_wrap=not self._console.is_interactive)

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
        self._stage, self._stage_started_s = stage, self._clock()
        self._messages.clear()
        if not self._console.is_interactive:
            self._line_s = self._clock()
            self._console.print(f"stage: {stage}", soft_wrap=True)
        if stage == "runs" and self._plan:
            self._start_table(self._plan)

    def _start_table(self, plan: Plan) -> None:
        """Begin the table of the runs, which stays on the terminal."""
        names = {_line(each): self._name(each) for each in plan.trials}
        runs = Counter(_line(run.trial) for run in plan.runs)
        scenarios = {_line(each): each.workload.scenario for each in plan.trials}
        self._trials = {
            line: TrialLine(runs=runs[line], scenario=scenario)
            for line, scenario in scenarios.items()
        }
        self._bars.columns = columns(self._console.width, max(map(len, names.values())))
        self._bars.live.transient = self._many
        if not self._many:
            for line, name in names.items():
                self._lines[line] = self._add(name)
                self._show(line)

    def event(self, run: Run, event: Event) -> None:
        """Show the phase of a run, with its rate and the remaining time where they are known."""
        line = _line(run.trial)
        if line in self._trials and self._trials[line].event(event, self._counts[run.name]):
            if self._many and line not in self._lines:
                self._lines[line] = self._add(self._name(run.trial))
            self._show(line)
        if line in self._trials and not self._console.is_interactive:
            self._running = f"{self._name(run.trial)} run {self._counts.get(run.name, '')}".rstrip()
        self._each_minute()

    def _each_minute(self) -> None:
        """In a log, say what is running, at most once a minute."""
        now_s = self._clock()
        if self._console.is_interactive or not self._stage or now_s - self._line_s < LINE_EVERY_S:
            return
        self._line_s = now_s
        parts = [f"{self._stage}:", self._running or "in progress"]
        if self._counts:
            parts.append(f"({self._done} of {len(self._counts)} runs done)")
        self._console.print(" ".join((*parts, self._time_left())).rstrip(), soft_wrap=True)

    def done(self, run: Run, record: Record) -> None:
        """Show the result of a run."""
        self._done, self._running = self._done + 1, ""
        if self._remaining:
            self._remaining.done(record)
            self._runs_left_s = self._remaining.runs_s()
        line, count = _line(run.trial), self._counts.get(run.name, "")
        if line in self._trials:
            self._trials[line].done(record, count)
        if line in self._lines:
            self._show(line)
            if self._many:
                self._bars.remove_task(self._lines.pop(line))
        if not self._console.is_interactive:
            metric = metric_of(record.workload.scenario)
            found = values_of([record]).get(record.repeat)
            rate = with_unit(found, metric) if found else ""
            error = record.error.first_line if record.error else ""
            parts = (self._name(run.trial), f"run {count}", record.status, rate, error)
            self._console.print(" ".join(part for part in parts if part), soft_wrap=True)

    @property
    def _many(self) -> bool:
        return self._plan is not None and len(set(map(_line, self._plan.trials))) > MANY

    def _overview(self) -> list[str]:
        return [f"{self._stages()}  {self._time_left()}"] if self._plan else []

    def _shown_messages(self) -> list[str]:
        return [f"{text} ..." for text in self._messages.values()]

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
            elapsed_s = self._clock() - self._stage_started_s
            left_s[self._stage] = max(0.0, left_s[self._stage] - elapsed_s)
        return sum(left_s.values())

    def _add(self, text: str) -> TaskID:
        return self._bars.add_task(text, blocks="", rate="", state="")

    def _show(self, line: str) -> None:
        """Show the line of a trial as it is now."""
        trial = self._trials[line]
        self._bars.update(
            self._lines[line],
            total=trial.runs,
            completed=trial.completed,
            blocks=trial.sparkline,
            rate=trial.rate,
            state=trial.state,
        )

    def _name(self, trial: Trial) -> str:
        """The configuration; the model and the devices where the plan has several.

        A trial of inference has its scenario, in scenario offline with its batch size.
        """
        workload, plan = trial.workload, self._plan
        assert plan is not None
        several = len({each.workload.model for each in plan.trials}) > 1
        devices = len({each.device for each in plan.trials}) > 1
        return " ".join(
            (
                trial.configuration,
                *((workload.model,) if several or not self._console.is_interactive else ()),
                *((workload.precision,) if workload.precision != "float32" else ()),
                *((workload.loss,) if workload.loss != "cross_entropy" else ()),
                *((workload.scenario,) if workload.scenario else ()),
                *((f"b{workload.batch_size}",) if workload.scenario == "offline" else ()),
                *((trial.device,) if devices else ()),
            )
        )


def _counts(plan: Plan) -> dict[str, str]:
    """The number of each run among those of its line, by the name of the run."""
    lines: dict[str, list[str]] = {}
    for run in plan.runs:
        lines.setdefault(_line(run.trial), []).append(run.name)
    return {
        name: f"{number}/{len(names)}"
        for names in lines.values()
        for number, name in enumerate(names, start=1)
    }


def _line(trial: Trial) -> str:
    """A key that is equal for trials that differ only in their seed."""
    return replace(trial, seed=0).trial_id
