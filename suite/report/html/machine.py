"""The last section: the machine, versions, locks and images, and failures with their logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report.figures.figure import Tags
from suite.report.html.parts import Row, Table, facts
from suite.report.numbers import UNKNOWN
from suite.report.table import known_columns
from suite.report.titles import framework_of
from suite.results.logs import end_of_log
from suite.results.record import Record
from suite.runner import series

if TYPE_CHECKING:
    from suite.report.run_data import RunData

LOG_LINES = 20
MOST_FAILURES = 20


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that is not ok."""

    name: str
    status: str
    message: str
    hint: str
    log: str  # its last lines
    tags: Tags


def machine(run: RunData) -> Table:
    """Where the run was made."""
    record = run.records[0]
    found = record.environment
    memory = found.get("memory_bytes")
    gpus = [str(gpu.get("name")) for gpu in found.get("gpus") or ()]
    values = [
        ("dlsuite", found.get("dlsuite")),
        ("engine", record.engine),
        ("processor", found.get("cpu")),
        ("physical cores", len(found.get("cpus") or [])),
        ("CPU quota", found.get("cpu_quota")),
        ("memory", f"{memory / 2**30:.1f} GiB" if memory else None),
        ("kernel", found.get("kernel")),
        ("frequency governor", found.get("governor")),
        ("GPUs", ", ".join(gpus)),
        ("Python of the host", found.get("python")),
        ("dataset", record.data_origin),
    ]
    best = run.peak.best if run.peak else {}
    peak = [
        (f"peak: {operation}", f"{each.work_per_s / 1e9:,.1f} G/s, by {each.framework}")
        for operation, each in best.items()
    ]
    return facts("The machine", [*values, *peak])


def versions(run: RunData) -> Table:
    """The versions, the lock and the image of each framework."""
    first: dict[tuple[str, str], Record] = {}
    for record in sorted(run.records, key=lambda each: each.status != "ok"):
        first.setdefault((record.framework, record.device), record)
    rows = [_versions(record) for record in first.values()]
    tags = [{"framework": each.framework, "device": each.device} for each in first.values()]
    tagged = zip(known_columns(rows), tags, strict=True)
    return Table(
        caption="Frameworks, locks and images", rows=[Row(cells=c, tags=t) for c, t in tagged]
    )


def _versions(record: Record) -> dict[str, str]:
    worker = record.environment.get("worker") or {}
    packages = worker.get("versions") or {}
    return {
        "framework": framework_of(record),
        "device": record.device,
        "version": record.framework_version or UNKNOWN,
        "packages": ", ".join(f"{name} {of}" for name, of in packages.items()) or UNKNOWN,
        "lock (SHA-256)": record.environment.get("lock_sha256") or UNKNOWN,
        "image": record.image_id or UNKNOWN,
    }


def failures(run: RunData) -> Iterator[Failure]:
    """The first runs that failed; not those that were left out with a reason."""
    for record in series.failures(run.records)[:MOST_FAILURES]:
        yield Failure(
            name=record.name,
            status=record.status,
            message=record.error.message if record.error else "no reason is known",
            hint=(record.error.hint if record.error else None) or "",
            log=end_of_log(run.folder, record, lines=LOG_LINES),
            tags={
                "framework": record.framework,
                "model": record.workload.model,
                "device": record.device,
            },
        )
