"""Progress on standard error: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn

from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run, Trial
from suite.report.table import console, rate_of
from suite.results.record import Record
from suite.runner.progress import STAGES, Stage

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warming up",
    "warmup": "warming up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}
START_S = 6.0  # of a run beyond its blocks, until the first run has shown its own duration


class Live:
    """A context manager that shows what it receives as `runner.progress.Progress`."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bars = Bars(
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
        self._stage: Stage | None = None
        self._finished: list[Stage] = []
        self._overview: TaskID | None = None
        self._durations_s: list[float] = []
        self._lines: dict[str, TaskID] = {}
        self._repeats: dict[str, int] = {}
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
        """Show a message; one that begins with the same topic ("PyTorch: ...") replaces it."""
        if not self._console.is_terminal:
            # A package installer sends hundreds of messages: too many for a log.
            if "downloading" not in text and "collecting" not in text:
                self._console.print(text, soft_wrap=True)
            return
        topic = text.partition(":")[0]
        if topic not in self._messages:
            self._messages[topic] = self._add(text)
        self._bars.update(self._messages[topic], description=text)

    def planned(self, plan: Plan) -> None:
        """Show the stages of the plan."""
        self._plan = plan
        self._overview = self._add(self._stages())
        self._show_time_left()

    def stage(self, stage: Stage) -> None:
        """Show that a stage starts; before the runs, show a line for each trial."""
        if self._stage:
            self._finished.append(self._stage)
        self._stage = stage
        self._clear_messages()
        if self._overview is not None:
            self._bars.update(self._overview, description=self._stages())
        if stage == "runs" and self._plan:
            for trial in self._plan.trials:
                runs = sum(run.trial == trial for run in self._plan.runs)
                self._repeats[trial.trial_id] = runs
                self._lines[trial.trial_id] = self._add(_name(trial), phase="waiting")

    def event(self, run: Run, event: Event) -> None:
        """Show what a run does."""
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
        self._show_time_left()
        if not self._console.is_terminal:
            words = (_name(run.trial), self._count(run), record.status, rate, error)
            self._console.print(" ".join(word for word in words if word), soft_wrap=True)

    def _stages(self) -> str:
        """All stages on one line: finished ones with a check mark, the current one in brackets."""
        return "  ".join(
            f"\\[{each}]"
            if each == self._stage
            else f"{each} ✓"
            if each in self._finished
            else each
            for each in STAGES
        )

    def _show_time_left(self) -> None:
        """Estimate the remaining time of the runs from the finished ones, or from the plan."""
        if self._plan is None or self._overview is None:
            return
        measure, done = self._plan.measure, len(self._durations_s)
        of_plan_s = START_S + measure.max_warmup_blocks * measure.block_s + measure.max_measure_s
        run_s = sum(self._durations_s) / done if done else of_plan_s
        left_s = run_s * max(0, len(self._plan.runs) - done)
        left = f"runs: {left_s / 60:.0f} min left" if left_s >= 60 else f"runs: {left_s:.0f} s left"
        self._bars.update(self._overview, left=left)

    def _clear_messages(self) -> None:
        for line in self._messages.values():
            self._bars.remove_task(line)
        self._messages.clear()

    def _add(self, text: str, phase: str = "") -> TaskID:
        return self._bars.add_task(text, run="", phase=phase, rate="", left="")

    def _show(self, run: Run, phase: str, rate: str, left: str) -> None:
        if run.trial.trial_id in self._lines:
            line = self._lines[run.trial.trial_id]
            self._bars.update(line, run=self._count(run), phase=phase, rate=rate, left=left)

    def _count(self, run: Run) -> str:
        return f"run {run.repeat + 1}/{self._repeats.get(run.trial.trial_id, 1)}"


def _name(trial: Trial) -> str:
    return f"{trial.configuration} {trial.workload.model}"
