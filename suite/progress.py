"""What a long command tells of itself while it runs; report/live.py shows it."""

from __future__ import annotations

from typing import Protocol

from suite.engines.base import Event
from suite.plan import Plan, Run
from suite.records import Record


class Progress(Protocol):
    def say(self, text: str) -> None:
        """Something is under way: a download, a proof."""

    def planned(self, plan: Plan) -> None:
        """The runs begin."""

    def event(self, run: Run, event: Event) -> None:
        """The worker of `run` said something."""

    def done(self, run: Run, record: Record) -> None:
        """The run has its record."""
