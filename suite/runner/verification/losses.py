"""The losses of the proven steps are the same work in all frameworks, so they are nearly equal."""

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
    """Losses that differ from the others after the same step of one workload, seed and devices."""
    groups: dict[tuple[object, ...], list[tuple[str, Record, float]]] = {}
    for where, record in records.items():
        for step, loss in _losses(folder, record, known).items():
            work = record.workload, record.seed, record.device, step
            groups.setdefault(work, []).append((where, record, loss))
    for key, group in groups.items():
        typical = statistics.median(loss for _, _, loss in group)
        for where, record, loss in group:
            if len(group) > 2 and abs(loss - typical) > TOLERANCE[record.arithmetic] * typical:
                yield finding(where, f"loss of step {key[-1]}", f"{typical:.6g}", f"{loss:.6g}")


def _losses(folder: Path, record: Record, known: Known) -> dict[int, float]:
    """The loss of each proven step, counted from 1, that a run reports; none where it is random."""
    described = known.get((record.workload.model, record.workload.dataset))
    if described is None or record.workload.input == "loader" or record.status != "ok":
        return {}
    if any(layer.kind == "dropout" for layer in described.architecture.leaves()):
        return {}
    try:
        reported = events.read(folder / "logs" / f"{record.name}.events.jsonl")
    except ProtocolError:
        return {}
    # In later steps rounding errors explode.
    proven = record.parity.steps or 1
    blocks = [each for each in reported if each["event"] in ("warmup", "block")]
    found = {each["step"]: each["loss"] for each in blocks if each["step"] <= proven}
    warmup = events.of(reported, "warmup")
    # A call of several steps ends with the loss of the last one; in interleaved runs, too, the
    # first block of warm-up follows the first call at once.
    if warmup and warmup[0]["step"] - warmup[0]["steps"] == 1:
        found[1] = events.one(reported, "compiled")["loss"]
    return found
