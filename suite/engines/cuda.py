"""The CUDA of a framework's lock, and the driver that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from suite.engines.errors import FrameworkUnavailable
from suite.manifests.frameworks import FrameworkManifest
from suite.paths import LOCKS

RUNTIME = re.compile(r"^nvidia-cuda-runtime(?:-cu\d+)?==(\d+)\.(\d+)", re.MULTILINE)
# The least driver of each major version of CUDA:
# docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
LEAST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580"}


def version(lock: Path) -> tuple[int, int] | None:
    """The CUDA of a lock, by its package of the runtime; None where there is none."""
    found = RUNTIME.search(lock.read_text(encoding="utf-8")) if lock.exists() else None
    return (int(found[1]), int(found[2])) if found else None


def obstacle(
    manifest: FrameworkManifest, gpus: Iterable[Mapping[str, Any]], locks: Path = LOCKS
) -> str | None:
    """Why the driver of these GPUs (worker/nvidia.py) cannot run the framework's CUDA lock.

    None where it can, or where a version is unknown.
    """
    needed = version(locks / manifest.name / "cuda.txt")
    least = LEAST_DRIVERS.get(needed[0]) if needed else None
    if needed is None or least is None:
        return None
    for driver in dict.fromkeys(gpu.get("driver_version") for gpu in gpus):
        if driver and _older(driver, least):
            return (
                f"{manifest.title}'s lock has CUDA {needed[0]}.{needed[1]}, which needs NVIDIA's"
                f" driver {least} or newer; this machine has {driver}"
            )
    return None


def require(manifest: FrameworkManifest, gpus: Iterable[Mapping[str, Any]]) -> None:
    """Raise FrameworkUnavailable where the driver is too old: before gigabytes are fetched."""
    if reason := obstacle(manifest, gpus):
        raise FrameworkUnavailable(
            reason, hint="update the driver, or --python with packages for the CUDA that it has"
        )


def _older(driver: str, least: str) -> bool:
    try:
        return Version(driver) < Version(least)
    except InvalidVersion:
        return False
