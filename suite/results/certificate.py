"""The errors in a kept certificate: what a report shows of it.

`suite.parity.certificates` makes certificates and judges by them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from suite.paths import home

FOLDER = "certificates"  # in the cache, and in a run's folder


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The relative errors of all tensors, and their tolerances."""

    tolerance: float  # of tensors without a wider one
    share: float  # the largest error as a share of its tolerance
    errors: list[dict[str, float]]  # for each step: tensor -> relative L2 error
    raised: list[dict[str, float]]  # for each step: tensor -> wider tolerance; or empty


def find(key: str, folder: Path) -> Certificate | None:
    """The certificate with this key in a run's folder or the cache; None where it is not kept."""
    for place in (folder, home()):
        try:
            text = (place / FOLDER / f"{key[:16]}.json").read_text(encoding="utf-8")
            values = json.loads(text)
            return Certificate(**{name: values[name] for name in Certificate.__annotations__})
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
