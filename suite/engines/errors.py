"""Errors of engines."""

from __future__ import annotations

from suite.errors import EngineError


class FrameworkUnavailable(Exception):
    """The framework cannot run on this machine. This is not an error: its runs are skipped."""

    def __init__(self, reason: str, *, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class EngineLost(EngineError):
    """The engine does not answer; its containers may still be running."""


class EngineMisconfigured(EngineError):
    """The engine is there, and a setting of the user keeps it from working."""
