"""The result of a closing proof, as a part of a record."""

from __future__ import annotations

import math

from suite.parity.tolerances import Judged, worst
from suite.results.record import Closing


def concluded(
    closing: Closing, judgement: Judged, reason: str | None, duration_s: float
) -> Closing:
    """The closing proof with its result; `reason` says why it is not proven."""
    largest = worst(judgement.errors)
    return closing.model_copy(
        update={
            "proven": reason is None,
            "reason": reason,
            "worst": {name: _finite(error) for name, error in largest.items()},
            "share": _finite(judgement.share),
            # With dropout, the length of a tensor shows an omitted update.
            "visible_share": None if closing.draws else judgement.visible_share,
            "duration_s": duration_s,
        }
    )


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
