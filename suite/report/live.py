"""Progress on standard error: a live line for each trial, or plain lines off a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn

from suite.engines.base import Event
from suite.plan import Plan, Run, Trial
from suite.records import Record
from suite.report.table import console, rate_of

PHASES = {
    "started": "building",
    "built": "first step",
    "compiled": "warming up",
    "warmup": "warming up",
    "block": "measuring",
    "epoch": "epoch done",
    "finished": "done",
}


class Live:
    """Shows what `suite.progress.Progress` is told; a context manager."""

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
        self._lines: dict[str, TaskID] = {}
        self._repeats: dict[str, int] = {}
        self._said: dict[str, TaskID] = {}

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

    def say(self, text: str) -> None:
        if not self._console.is_terminal:
            # A package installer says hundreds of things: where nothing is redrawn, too many.
            if "downloading" not in text and "collecting" not in text:
                self._console.print(text, soft_wrap=True)
            return
        topic = text.partition(":")[0]  # "PyTorch: downloading ..." stays on PyTorch's line
        if topic not in self._said:
            self._said[topic] = self._bars.add_task(text, run="", phase="", rate="", left="")
        self._bars.update(self._said[topic], description=text)

    def planned(self, plan: Plan) -> None:
        for line in self._said.values():
            self._bars.remove_task(line)
        self._said.clear()
        for trial in plan.trials:
            self._repeats[trial.trial_id] = sum(run.trial == trial for run in plan.runs)
            self._lines[trial.trial_id] = self._bars.add_task(
                _name(trial), run="", phase="waiting", rate="", left=""
            )

    def event(self, run: Run, event: Event) -> None:
        phase = PHASES.get(event["event"])
        if phase is None:
            return
        rate = f"{rate_of(event['samples_per_s'])} images/s" if "samples_per_s" in event else ""
        left = f"{event['left_s']:.0f} s left" if "left_s" in event else ""
        self._show(run, phase, rate, left)

    def done(self, run: Run, record: Record) -> None:
        rate = f"{rate_of(record.samples_per_s)} images/s" if record.samples_per_s else ""
        error = record.error.message if record.error else ""
        self._show(run, record.status, rate, error)
        if not self._console.is_terminal:
            words = (_name(run.trial), self._count(run), record.status, rate, error)
            self._console.print(" ".join(word for word in words if word), soft_wrap=True)

    def _show(self, run: Run, phase: str, rate: str, left: str) -> None:
        line = self._lines[run.trial.trial_id]
        self._bars.update(line, run=self._count(run), phase=phase, rate=rate, left=left)

    def _count(self, run: Run) -> str:
        return f"run {run.repeat + 1}/{self._repeats[run.trial.trial_id]}"


def _name(trial: Trial) -> str:
    return f"{trial.means} {trial.workload.model}"
