"""The result of `dlsuite check-gpu`: a row for each check, a column for each framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from suite.manifests import catalog
from suite.report.numbers import UNKNOWN
from suite.report.table import PIPED_WIDTH, Fitted, of_rows
from suite.results.record import Record
from suite.results.roofline import HardwarePeak

SUITE = "check_gpu"
TITLE = "GPU check"
NOTE = (
    "proven: the same work as the float64 reference, in its first steps and at the end of the run"
)
MIB = 2**20
Cell = Callable[[Sequence[Record]], str]  # of the records of one framework


def render(
    records: Sequence[Record], width: int = PIPED_WIDTH, peak: HardwarePeak | None = None
) -> Fitted:
    """The table for a terminal."""
    rows = rows_of(records, peak)
    return of_rows(TITLE, rows, left=[*rows[0]], width=width, caption=NOTE)


def rows_of(records: Sequence[Record], peak: HardwarePeak | None) -> list[dict[str, str]]:
    """The checks in the order in which they are made, then figures: a text for each framework."""
    records = sorted(records, key=_position)
    usual = catalog.suite(SUITE).frameworks
    found = dict.fromkeys(_framework(each) for each in records)
    names = sorted(found, key=lambda name: usual.index(name) if name in usual else len(usual))
    of = {name: [each for each in records if _framework(each) == name] for name in names}
    return [
        *_peak_rows(names, peak),
        *(
            {"check": label, **{name: _status(_with(of[name], label)) for name in names}}
            for label in dict.fromkeys(map(_label, records))
        ),
        *(
            {"check": label, **{name: cell(of[name]) for name in names}}
            for label, cell in FIGURES.items()
        ),
    ]


def problems(records: Sequence[Record]) -> Iterator[str]:
    """A line for each reason for which checks did not succeed, with these checks."""
    by_reason: dict[str, list[Record]] = {}
    for each in sorted(records, key=_position):
        expected = each.status == "oom" and _label(each) == TOO_LARGE
        reason = each.error.message if each.error else each.parity.reason
        if reason and not expected and not _unsupported(each):
            by_reason.setdefault(reason, []).append(each)
    for reason, found in by_reason.items():
        if all(map(_is_late, found)):
            yield f"not reached: {reason}; --max-time allows more"
        else:
            yield f"{reason} ({'; '.join(f'{_framework(each)}, {_label(each)}' for each in found)})"


TOO_LARGE = "out of memory, recognized"
LARGE_BATCH = 4096  # the batch that does not fit has more samples


def _position(record: Record) -> tuple[int, bool]:
    """The place of a record's check: that of its workload in the suite, TF32 after float32."""
    own = record.workload
    of_own = (own.model, own.scenario, own.precision, own.batch_size, record.devices.ranks)
    workloads = [
        (each.model, each.scenario, each.precision, each.batch_size, entry.ranks or 1)
        for entry, each in catalog.suite(SUITE).expanded()
    ]
    place = workloads.index(of_own) if of_own in workloads else len(workloads)
    return place, bool(record.runtime.tf32)


def _framework(record: Record) -> str:
    """The framework, and the backend of Keras."""
    return record.framework if record.framework != "keras" else f"keras:{record.variant}"


def _label(record: Record) -> str:
    """The check that a record is of."""
    workload = record.workload
    if workload.batch_size > LARGE_BATCH:
        return TOO_LARGE
    precision = "TF32" if record.runtime.tf32 else workload.precision
    kind = "inference" if workload.scenario else "training"
    together = f", {record.devices.ranks} GPUs" if record.devices.ranks > 1 else ""
    return f"{workload.model}, {kind}, {precision}{together}"


def _with(records: Sequence[Record], label: str) -> Record | None:
    return next((each for each in records if _label(each) == label), None)


def _unsupported(record: Record) -> bool:
    return record.error is not None and record.error.error_class == "Unsupported"


def _status(record: Record | None) -> str:
    if record is None or _unsupported(record):
        return UNKNOWN
    if _label(record) == TOO_LARGE:
        return "yes" if record.status == "oom" else _not(record)
    if record.status != "ok":
        return _not(record)
    return "proven" if record.parity.proven else "not proven"


def _not(record: Record) -> str:
    """The status of a check without its result; that the time was up is no failure."""
    return "not reached" if _is_late(record) else "fits" if record.status == "ok" else record.status


def _is_late(record: Record) -> bool:
    return record.error is not None and record.error.error_class == "TimeLimit"


def _peak_rows(names: Sequence[str], peak: HardwarePeak | None) -> Iterator[dict[str, str]]:
    """The rates of matrix products, where they were measured."""
    if peak is None:
        return
    for operation in peak.best:
        if not operation.startswith("matmul_"):
            continue
        rates = {name: peak.by_framework.get(name, {}).get(operation) for name in names}
        shown = {
            name: f"{rate / 1e12:,.1f} TFLOP/s" if rate else UNKNOWN for name, rate in rates.items()
        }
        yield {"check": f"product, {operation.removeprefix('matmul_')}", **shown}


def _measured(records: Sequence[Record]) -> Record | None:
    """The first successful training."""
    return next((each for each in records if each.status == "ok" and not each.inference), None)


def _memory(records: Sequence[Record]) -> str:
    """The peak that the framework's allocator reserved, and NVML's of the whole GPU."""
    record = _measured(records)
    if record is None:
        return UNKNOWN
    gpu = record.telemetry.gpu if record.telemetry else None
    own = record.memory.device_reserved_bytes or record.memory.device_peak_bytes
    values = (own, gpu.used_peak_bytes if gpu else None)
    shown = " / ".join(f"{each / MIB:,.0f}" if each else UNKNOWN for each in values)
    return f"{shown} MiB" if any(values) else UNKNOWN


def _energy(records: Sequence[Record]) -> str:
    """The energy of a sample, and whether it is the GPU's counter or its integrated power."""
    record = _measured(records)
    energy = record.energy if record else None
    return f"{energy.gross_j_per_sample:.2g} J ({energy.source})" if energy else UNKNOWN


FIGURES: dict[str, Cell] = {
    "memory: allocator / NVML": _memory,
    "energy of a sample": _energy,
}
