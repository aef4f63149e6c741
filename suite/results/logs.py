"""The files that a worker leaves in a run's `logs/`: samples of the telemetry, and its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.manifests import json_file

if TYPE_CHECKING:
    from suite.results.record import Record

Sample = dict[str, Any]  # of the telemetry (docs/reference/protocol.md)


def samples_of(path: Path) -> list[Sample]:
    """The samples in a worker's file; none if there is no file. Invalid lines are omitted."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            sample = json_file.loads(line)
        except ValueError:
            continue
        if isinstance(sample, dict):
            found.append(sample)
    return found


def samples(folder: Path, run: Record) -> list[Sample]:
    """The telemetry samples of a run in order of time; none where they are not kept."""
    return samples_of(folder / "logs" / f"{run.name}.telemetry.jsonl")


def end_of_log(folder: Path, run: Record, *, lines: int) -> str:
    """The last lines of a run's log; empty where it has none."""
    if run.log is None:
        return ""
    try:
        text = (folder / run.log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
