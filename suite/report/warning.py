"""A warning about the figures of a trial."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportWarning:
    """A warning about one trial: its kind, a detail of this trial, and the next step."""

    kind: str
    detail: str
    hint: str
