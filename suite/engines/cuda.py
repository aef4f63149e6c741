"""The CUDA of a framework's lock, and the driver that it needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from suite.engines.errors import FrameworkUnavailable
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
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


def note(manifest: FrameworkManifest, gpus: Iterable[Mapping[str, Any]]) -> str | None:
    """What happens on a GPU that is newer than the lock's kernels; None where none is."""
    known = manifest.cuda_capability
    if known is None:
        return None
    newer = [
        f"{gpu['name']} (compute capability {gpu['compute_cap']})"
        for gpu in gpus
        if gpu.get("compute_cap") and _older(known.newest, gpu["compute_cap"])
    ]
    if not newer:
        return None
    return (
        f"{manifest.title}'s CUDA lock has kernels up to compute capability {known.newest}, and"
        f" {newer[0]} is newer: {known.beyond.strip()}"
    )


def require(
    manifest: FrameworkManifest, gpus: Collection[Mapping[str, Any]], notify: Notify
) -> None:
    """Before gigabytes are fetched: say that a GPU is newer than the lock's kernels.

    Raise FrameworkUnavailable where the driver is too old.
    """
    if reason := obstacle(manifest, gpus):
        raise FrameworkUnavailable(
            reason, hint="update the driver, or --python with packages for the CUDA that it has"
        )
    if text := note(manifest, gpus):
        notify(f"warning: {text}")


def _older(version: str, least: str) -> bool:
    try:
        return Version(version) < Version(least)
    except InvalidVersion:
        return False
