"""The interface through which a long command reports its progress; report.live shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from suite.messages import Notify
from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run
from suite.results.record import Record

if TYPE_CHECKING:
    from suite.runner.estimate import Estimate

Stage = Literal["data", "environments", "parity", "peak", "runs"]
STAGES: tuple[Stage, ...] = ("data", "environments", "parity", "peak", "runs")


class Progress(Protocol):
    """Receives what happens, in the order in which it happens."""

    def notify(self, text: str) -> None:
        """A message, for example about a download or a proof."""

    def planned(
        self, plan: Plan, stages: tuple[Stage, ...], finished: Sequence[Record] = ()
    ) -> None:
        """The plan, its stages and its finished runs are known; nothing has started yet."""

    def estimated(self, estimate: Estimate) -> None:
        """The durations of the parts of the plan are known, or known better than before."""

    def stage(self, stage: Stage) -> None:
        """A stage of the plan starts; the one before it is finished."""

    def event(self, run: Run, event: Event) -> None:
        """The worker of `run` sent an event."""

    def done(self, run: Run, record: Record) -> None:
        """The run has its record."""


@dataclass(frozen=True)
class Messages:
    """A Progress that passes on messages only."""

    notify: Notify

    def planned(
        self, plan: Plan, stages: tuple[Stage, ...], finished: Sequence[Record] = ()
    ) -> None: ...

    def estimated(self, estimate: Estimate) -> None: ...

    def stage(self, stage: Stage) -> None: ...

    def event(self, run: Run, event: Event) -> None: ...

    def done(self, run: Run, record: Record) -> None: ...
