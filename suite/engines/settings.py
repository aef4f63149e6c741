"""The resources of a worker that the user chooses."""

from __future__ import annotations

from dataclasses import dataclass

from suite.engines.gpus import Gpus


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's choices for the container or process of a worker."""

    gpus: Gpus | None = None
    memory_bytes: int | None = None
    keep: bool = False  # keep containers and volumes for inspection
