"""Telemetry of a run: memory, processor time, GPU and energy, over its timed blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from suite.manifests.strict import Strict


class Energy(Strict):
    """The energy of the timed blocks; `net` excludes that of the idle machine."""

    source: Literal["counter", "power"]  # the device's own counter, or its integrated power
    gross_j: float
    net_j: float | None
    gross_j_per_sample: float
    net_j_per_sample: float | None
    idle_power_w: float | None


def together(parts: Sequence[Energy | None]) -> Energy | None:
    """The energy of several devices that trained together; None where one is unknown.

    The samples are those of all devices, so joules per sample add up too.
    """
    known = [each for each in parts if each is not None]
    if not known or len(known) < len(parts):
        return None
    return Energy(
        source="power" if any(each.source == "power" for each in known) else "counter",
        gross_j=sum(each.gross_j for each in known),
        net_j=_sum([each.net_j for each in known]),
        gross_j_per_sample=sum(each.gross_j_per_sample for each in known),
        net_j_per_sample=_sum([each.net_j_per_sample for each in known]),
        idle_power_w=_sum([each.idle_power_w for each in known]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None where a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class Gpu(Strict):
    """The worker's GPU over the timed blocks."""

    uuid: str
    used_peak_bytes: int | None  # of the whole device, by NVML
    used_mean_bytes: float | None
    utilisation: float | None  # mean share of the time in which a kernel ran
    sm_clock_mhz: float | None  # mean
    sm_clock_min_mhz: float | None
    temperature_max_c: float | None
    throttled: tuple[str, ...] | None
    other_processes: int | None  # the most at a time, before or during the timed blocks
    energy: Energy | None


class Telemetry(Strict):
    """The telemetry over the timed blocks; cores are processor seconds per second."""

    samples: int
    rss_peak_bytes: int | None  # of the worker and its children
    cores: float | None  # used by the worker and its children
    other_cores: float | None  # used by all other processes on the machine
    steal_cores: float | None  # given to other machines by the hypervisor
    sampler_cores: float | None  # used by the telemetry itself
    cpu_energy: Energy | None
    gpu: Gpu | None
    problems: dict[str, str] = Field(
        default={}
    )  # why a figure is unknown: sampler, cpu_energy, gpu_energy
