"""The resources that the user gives a worker."""

from __future__ import annotations

from dataclasses import dataclass

from suite.engines.gpus import Gpus


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's choices for a worker's container or process."""

    gpus: Gpus | None = None
    memory_bytes: int | None = None
    keep: bool = False  # keep containers and volumes for inspection
