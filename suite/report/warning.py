"""A warning about the figures of a trial."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportWarning:
    """A warning about one trial: its kind, a detail of this trial, and the next step.

    `causes` are names that differ between trials with the same next step, such as processes.
    """

    kind: str
    detail: str
    hint: str
    causes: tuple[str, ...] = ()
