"""The hardware peak of a device, and the share of it that a run reaches.

The roofline model (Williams, Waterman and Patterson 2009): no program is faster than its arithmetic
at the device's peak rate, nor than its memory traffic at the memory's bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from suite.manifests import yaml_file
from suite.manifests.strict import Strict
from suite.paths import write_atomically
from suite.results.record import Record

NAME = "peak.yaml"
OLD_NAME = "limit.yaml"  # before version 0.2
BOUND = 0.5  # a run below this share of both peaks is bound by neither

Bound = Literal["compute", "memory", "neither"]


class Best(Strict):
    """The highest rate of one operation, and the framework that reached it."""

    work_per_s: float  # floating-point operations, or bytes read and written, per second
    framework: str


class HardwarePeak(Strict):
    """The highest rate of each operation on a device, and the rates of each framework."""

    device: str
    best: dict[str, Best]
    by_framework: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Share:
    """The shares of the peak arithmetic rate (MFU) and of the peak bandwidth that a run reaches.

    The share of the bandwidth may exceed 1: caches absorb part of the counted traffic.
    """

    compute: float
    memory: float

    @property
    def bound(self) -> Bound:
        """The resource that limits the run."""
        if max(self.compute, self.memory) < BOUND:
            return "neither"
        return "compute" if self.compute >= self.memory else "memory"


def peak_of(device: str, by_framework: dict[str, dict[str, float]]) -> HardwarePeak:
    """The peak of a device from the rates (work per second) of each framework's operations."""
    best: dict[str, Best] = {}
    for framework, rates in by_framework.items():
        for operation, work_per_s in rates.items():
            if operation not in best or work_per_s > best[operation].work_per_s:
                best[operation] = Best(work_per_s=work_per_s, framework=framework)
    return HardwarePeak(device=device, best=best, by_framework=by_framework)


def larger(one: HardwarePeak, other: HardwarePeak) -> HardwarePeak:
    """The higher rate of each operation in two measurements of one device."""
    by_framework = {
        framework: _larger(
            one.by_framework.get(framework, {}), other.by_framework.get(framework, {})
        )
        for framework in one.by_framework | other.by_framework
    }
    return peak_of(one.device, by_framework)


def _larger(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(rates.get(name, 0.0) for rates in (one, other)) for name in (one | other)}


def share(record: Record, rate: float | None, peak: HardwarePeak | None) -> Share | None:
    """The share of the peak that `rate` (samples per second) reaches; None where unknown."""
    if peak is None or rate is None:
        return None
    product, copy = peak.best.get(f"matmul_{record.arithmetic}"), peak.best.get("copy")
    kind = record.devices.kind
    if product is None or copy is None or peak.device.partition(":")[0] != kind:
        return None
    # The peak is that of one GPU, or of all cores.
    cores = len(record.environment.get("cpus") or [])
    devices = record.cores / cores if kind == "cpu" and cores else record.devices.ranks
    return Share(
        compute=rate * record.flops_per_sample / product.work_per_s / devices,
        memory=rate * record.bytes_per_sample / copy.work_per_s / devices,
    )


def write(folder: Path, peak: HardwarePeak) -> None:
    """Write a run's peak; raise OSError where that fails."""
    write_file(folder / NAME, peak)


def read(folder: Path) -> HardwarePeak | None:
    """The peak of a run; None where none was measured or it cannot be read."""
    return read_file(folder / NAME) or read_file(folder / OLD_NAME)


def write_file(path: Path, peak: HardwarePeak) -> None:
    """Write a peak as YAML; raise OSError where that fails."""
    write_atomically(path, yaml.safe_dump(peak.model_dump(), sort_keys=False))


def read_file(path: Path) -> HardwarePeak | None:
    """The peak in a file; None where it is missing or cannot be read."""
    try:
        return HardwarePeak.model_validate(yaml_file.read(path.read_bytes()).values)
    except (OSError, ValueError, yaml_file.Refused):
        return None
