"""The callback through which a long operation passes progress messages to the user."""

from __future__ import annotations

from collections.abc import Callable

Notify = Callable[[str], None]
