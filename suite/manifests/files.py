"""The names of the manifests that exist."""

from __future__ import annotations

from typing import Literal

from suite.paths import MANIFESTS

Kind = Literal["framework", "dataset", "suite", "track", "paper"]


def names(kind: Kind) -> list[str]:
    """All names of a kind, sorted."""
    return sorted(path.stem for path in (MANIFESTS / f"{kind}s").glob("*.yaml"))
