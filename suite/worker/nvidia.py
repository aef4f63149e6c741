"""The NVIDIA GPUs that nvidia-smi reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from .programs import ask

FIELDS = ("uuid", "name", "driver_version", "memory.total")
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Found:
    """The GPUs of this process, and why the list may be incomplete or empty."""

    gpus: list[dict[str, str]] = field(default_factory=list)
    problem: str | None = None


def find() -> Found:
    """Ask nvidia-smi; it may take seconds, so commands for a CPU do not call this."""
    query = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    answer = ask(query, timeout_s=TIMEOUT_S)
    rows = [line.split(", ") for line in answer.output.splitlines()]
    gpus = [dict(zip(FIELDS, row)) for row in rows if len(row) == len(FIELDS)]
    return Found(gpus, answer.problem)
