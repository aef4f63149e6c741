"""What every record says of where it was made."""

from __future__ import annotations

import platform
from typing import Any

import suite


def describe(host: dict[str, Any]) -> dict[str, Any]:
    """The orchestrator's versions and the engine's `host`; what cannot be read is null."""
    return {"dlsuite": suite.__version__, "python": platform.python_version(), **host}
