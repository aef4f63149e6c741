"""The errors in a kept certificate: what a report shows of it.

`suite.parity.certificates` makes certificates and judges by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from suite.manifests import json_file
from suite.paths import home

FOLDER = "certificates"  # in the cache, and in a run's folder


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The relative errors of all tensors, and their tolerances."""

    tolerance: float  # of tensors without a wider one
    share: float  # the largest error as a share of its tolerance
    errors: list[dict[str, float]]  # for each step: tensor -> relative L2 error
    raised: list[dict[str, float]]  # for each step: tensor -> wider tolerance; or empty


def dumped(values: Mapping[str, Any]) -> str:
    """The JSON of a certificate. JSON has no infinity: an error that is infinite is null."""
    return json.dumps(_without_infinity(values), indent=1, allow_nan=False) + "\n"


def loaded(text: str | bytes) -> dict[str, Any]:
    """The values of a certificate; ValueError, KeyError or TypeError where it is not one."""
    values: dict[str, Any] = json_file.loads(text)
    for name in ("errors", "raised"):
        values[name] = [_with_infinity(step) for step in values[name]]
    values["worst"] = _with_infinity(values["worst"])
    return values | _with_infinity({"share": values["share"]})


def _with_infinity(errors: Mapping[str, float | None]) -> dict[str, float]:
    return {name: inf if error is None else error for name, error in errors.items()}


def _without_infinity(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_infinity(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_infinity(each) for each in value]
    return value if not isinstance(value, float) or isfinite(value) else None


def find(key: str, folder: Path) -> Certificate | None:
    """The certificate with this key in a run's folder or the cache; None where it is not kept."""
    for place in (folder, home()):
        try:
            text = (place / FOLDER / f"{key[:16]}.json").read_text(encoding="utf-8")
            values = loaded(text)
            return Certificate(**{name: values[name] for name in Certificate.__annotations__})
        except (AttributeError, OSError, ValueError, KeyError, TypeError):
            continue
    return None
