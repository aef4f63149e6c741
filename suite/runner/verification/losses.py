"""The loss of the first step is the same work in each framework, so it is nearly the same value."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from suite.protocol import events
from suite.protocol.events import ProtocolError
from suite.results.record import Record
from suite.runner.verification.findings import Outcome, finding

if TYPE_CHECKING:
    from suite.runner.verification.inputs import Known

# Relative, by the arithmetic; the proofs accept less.
TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}


def check(folder: Path, records: Mapping[str, Record], known: Known) -> Iterator[Outcome]:
    """First losses that differ from the others of the same workload, seed and devices."""
    groups: dict[object, list[tuple[str, Record, float]]] = {}
    for where, record in records.items():
        if (loss := _first_loss(folder, record, known)) is not None:
            key = record.workload, record.seed, record.device
            groups.setdefault(key, []).append((where, record, loss))
    for group in groups.values():
        typical = statistics.median(loss for _, _, loss in group)
        for where, record, loss in group:
            if len(group) > 2 and abs(loss - typical) > TOLERANCE[record.arithmetic] * typical:
                yield finding(where, "loss of the first step", f"{typical:.6g}", f"{loss:.6g}")


def _first_loss(folder: Path, record: Record, known: Known) -> float | None:
    """The loss of the first step; None where it is random, or that of a later step."""
    described = known.get((record.workload.model, record.workload.dataset))
    if described is None or record.workload.input == "loader" or record.status != "ok":
        return None
    if any(layer.kind == "dropout" for layer in described.architecture.leaves()):
        return None
    try:
        reported = events.read(folder / "logs" / f"{record.name}.events.jsonl")
    except ProtocolError:
        return None
    warmup = events.of(reported, "warmup")
    # A call of several steps ends with the loss of the last one; in interleaved runs, too, the
    # first block of warm-up follows the first call at once.
    if not warmup or warmup[0]["step"] - warmup[0]["steps"] != 1:
        return None
    loss: float | None = events.one(reported, "compiled").get("loss")
    return loss
