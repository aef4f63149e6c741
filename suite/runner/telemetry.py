"""Computes the telemetry of a run from the samples of its sampler and the events of its worker.

A window is a timed block, from its first to its last nanosecond on the monotonic clock, which
worker and sampler share; energy is summed over exactly these windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.protocol import events
from suite.protocol.events import Event
from suite.results.telemetry import Energy, Gpu, Telemetry

Sample = dict[str, Any]
Window = tuple[int, int]
Series = NDArray[np.float64]

MOST_W = 10_000.0  # of a GPU, or of all CPUs of a machine; a counter that rises faster is wrong
STALLED_S = 5.0  # a counter without change for longer is wrong; a device needs energy all the time
# The least and the most of what a GPU can be; NVML stands for "unknown" with the largest integer.
POSSIBLE = {
    "used_bytes": (0, 2**44),
    "utilisation": (0, 1),
    "power_w": (0, MOST_W),
    "sm_clock_mhz": (1, 10_000),
    "temperature_c": (-50, 150),
    "processes": (0, 2**22),
}
UNKNOWN = Telemetry(
    samples=0,
    rss_peak_bytes=None,
    cores=None,
    other_cores=None,
    steal_cores=None,
    sampler_cores=None,
    cpu_energy=None,
    gpu=None,
)

# NVML's bits for the reasons why a GPU's clocks are not higher. A user's setting and idleness are
# not throttling.
THROTTLED = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


def windows(reported: Sequence[Event]) -> list[Window]:
    """The first and the last nanosecond of each timed block, or of the timed queries."""
    blocks = events.of(list(reported), "block") or events.of(list(reported), "inference")
    return [
        (each["monotonic_ns"] - round(each["duration_s"] * 1e9), each["monotonic_ns"])
        for each in blocks
    ]


def summarise(
    samples: Sequence[Sample], reported: Sequence[Event], *, processed: int
) -> Telemetry | None:
    """The telemetry of a worker with these events; None without two samples or a timed block.

    `processed` is the number of samples in the timed blocks or queries.
    """
    timed = windows(reported)
    notes = [each["problem"] for each in samples if "problem" in each]
    samples = [each for each in samples if "problem" not in each]
    if not timed or (len(samples) < 2 and not notes):
        return None
    if len(samples) < 2:
        return UNKNOWN.model_copy(update={"problems": {"sampler": notes[0]}})
    times = np.array([each["monotonic_ns"] for each in samples], dtype=np.float64)
    inside = np.array([any(start <= t <= end for start, end in timed) for t in times])
    idle = times < _loading_ns(reported)
    rates = _Rates(times, timed)
    cores = rates.of(_column(samples, "cpu_s"))
    sampler = rates.of(_column(samples, "sampler_s"))
    busy = rates.of(_column(samples, "busy_s"))
    rss = _column(samples, "rss_bytes")[inside]
    return Telemetry(
        samples=int(inside.sum()),
        rss_peak_bytes=_whole(_peak(rss)),
        cores=cores,
        other_cores=_others(busy, cores, sampler),
        steal_cores=rates.of(_column(samples, "steal_s")),
        sampler_cores=sampler,
        cpu_energy=_energy(
            times, _column(samples, "rapl_j"), None, timed, idle=idle, processed=processed
        ),
        gpu=_gpu(samples, times, timed, inside, idle, processed),
        problems=_problems(samples, times, timed, notes),
    )


def _problems(
    samples: Sequence[Sample], times: Series, timed: Sequence[Window], notes: Sequence[str]
) -> dict[str, str]:
    """Why figures are unknown, by their names; a machine without a counter is no problem."""
    found = {}
    missing_s = (timed[-1][1] - times[-1]) / 1e9
    if notes or missing_s > 0:
        found["sampler"] = (*notes, f"no sample in the last {missing_s:.1f} s")[0]
    counters = {
        "cpu_energy": _column(samples, "rapl_j"),
        "gpu_energy": _column([each.get("gpu") or {} for each in samples], "energy_j"),
    }
    for name, series in counters.items():
        if reason := _fault(times, series, timed):
            found[name] = reason
    of_gpu = [each["gpu"] for each in samples if each.get("gpu")]
    if any((each["uuid"] or "").startswith("MIG-") for each in of_gpu):
        found["gpu_energy"] = "a MIG slice has no energy counter of its own"
    if reason := next((each["problem"] for each in of_gpu if each.get("problem")), None):
        found["gpu"] = reason
    return found | _impossible(of_gpu)


def _impossible(of_gpu: Sequence[Sample]) -> dict[str, str]:
    """What NVML reported and no GPU can have; these values are not used."""
    found = {}
    for name in POSSIBLE:
        values = _known(_column(of_gpu, name))
        wrong = [value for value in values if not _is_possible(name, value)]
        if wrong:
            found[f"gpu_{name}"] = f"{len(wrong)} of {len(values)} values, such as {wrong[0]:.4g}"
    return found


def _fault(times: Series, counter_j: Series, timed: Sequence[Window]) -> str | None:
    """What is wrong with an energy counter around the windows; None for a good or absent one."""
    around = (times >= timed[0][0]) & (times <= timed[-1][1])
    known, at_s = counter_j[around], times[around] / 1e9
    if np.isnan(counter_j).all() or len(known) < 2:
        return None
    if np.isnan(known).any():
        return "the counter became unreadable"
    rise, pause_s = np.diff(known), np.diff(at_s)
    if (rise < 0).any():
        return "the counter decreased"
    if (rise > MOST_W * (pause_s + 1)).any():
        return f"the counter jumped by {rise.max():.3g} J"
    if known[-1] == known[0]:
        return "the counter did not move"
    stalled_s = longest_s = 0.0
    for increase, duration_s in zip(rise, pause_s, strict=True):
        stalled_s = 0.0 if increase > 0 else stalled_s + duration_s
        longest_s = max(longest_s, stalled_s)
    return f"the counter did not move for {longest_s:.0f} s" if longest_s > STALLED_S else None


def _others(busy: float | None, cores: float | None, sampler: float | None) -> float | None:
    """The busy cores without the worker's and the sampler's; 0 where rounding makes it negative."""
    if busy is None or cores is None:
        return None
    return max(0.0, busy - cores - (sampler or 0.0))


def _loading_ns(reported: Sequence[Event]) -> float:
    """When the worker began to import its framework; until then, the machine was idle."""
    started = events.one(list(reported), "started")
    return started["monotonic_ns"] - started["import_s"] * 1e9 if started else 0.0


class _Rates:
    """Mean rates of increasing series over the windows."""

    def __init__(self, times: Series, timed: Sequence[Window]) -> None:
        self._times, self._timed = times, timed

    def of(self, series: Series) -> float | None:
        """The rate of a series per second; None where it is unknown."""
        increase = _increase(self._times, series, self._timed)
        return None if increase is None else increase / _duration_s(self._timed)


def _duration_s(timed: Sequence[Window]) -> float:
    return sum(end - start for start, end in timed) / 1e9


def _increase(times: Series, series: Series, timed: Sequence[Window]) -> float | None:
    """The increase of a series in all windows, by linear interpolation between samples.

    None where a value around the windows is unknown, or where the series decreases, because its
    counter was reset.
    """
    first, last = timed[0][0], timed[-1][1]
    if times[0] > first or times[-1] < last:
        return None
    around = slice(
        int(np.searchsorted(times, first, side="right")) - 1,
        int(np.searchsorted(times, last, side="left")) + 1,
    )
    known = series[around]
    if np.isnan(known).any() or (np.diff(known) < 0).any():
        return None
    edges = np.interp(np.array(timed, dtype=np.float64), times[around], known)
    return float((edges[:, 1] - edges[:, 0]).sum())


def _energy(
    times: Series,
    counter_j: Series,
    power_w: Series | None,
    timed: Sequence[Window],
    *,
    idle: NDArray[np.bool_],
    processed: int,
) -> Energy | None:
    """The energy by the device's counter or, without one, by trapezoids from its power."""
    source: Literal["counter", "power"] = "counter"
    gross_j = None if _fault(times, counter_j, timed) else _increase(times, counter_j, timed)
    if not gross_j:  # no device needs no energy
        gross_j = None
    if gross_j is None and power_w is not None:
        source = "power"
        steps_j = np.diff(times) / 1e9 * (power_w[1:] + power_w[:-1]) / 2
        # An unknown power makes only the energy at that sample unknown.
        counter_j = np.concatenate([[0.0], np.cumsum(np.nan_to_num(steps_j))])
        counter_j[np.isnan(power_w)] = np.nan
        gross_j = _increase(times, counter_j, timed)
    if gross_j is None:
        return None
    idle_w = _idle_power_w(times[idle], counter_j[idle])
    net_j = None if idle_w is None else gross_j - idle_w * _duration_s(timed)
    return Energy(
        source=source,
        gross_j=gross_j,
        net_j=net_j,
        gross_j_per_sample=gross_j / processed,
        net_j_per_sample=None if net_j is None else net_j / processed,
        idle_power_w=idle_w,
    )


def _idle_power_w(times: Series, counter_j: Series) -> float | None:
    """The mean power between the first and the last sample; None where it is unknown."""
    if len(times) < 2 or np.isnan(counter_j).any() or counter_j[-1] < counter_j[0]:
        return None
    return float((counter_j[-1] - counter_j[0]) / (times[-1] - times[0]) * 1e9)


def _gpu(
    samples: Sequence[Sample],
    times: Series,
    timed: Sequence[Window],
    inside: NDArray[np.bool_],
    idle: NDArray[np.bool_],
    processed: int,
) -> Gpu | None:
    of_gpu = [_possible(each.get("gpu") or {}) for each in samples]
    uuid = next((each["uuid"] for each in of_gpu if each.get("uuid")), None)
    if uuid is None:
        return None

    def during(name: str) -> Series:
        return _column(of_gpu, name)[inside]

    processes = _column(of_gpu, "processes")
    others = [_peak(processes[idle]), _peak(processes[inside] - 1)]
    bits = [int(each) for each in during("throttle") if not np.isnan(each)]
    throttled = [name for bit, name in THROTTLED.items() if any(each & bit for each in bits)]
    return Gpu(
        uuid=uuid,
        used_peak_bytes=_whole(_peak(during("used_bytes"))),
        used_mean_bytes=_mean(during("used_bytes")),
        utilisation=_mean(during("utilisation")),
        sm_clock_mhz=_mean(during("sm_clock_mhz")),
        sm_clock_min_mhz=_least(during("sm_clock_mhz")),
        temperature_max_c=_peak(during("temperature_c")),
        throttled=tuple(throttled) if bits else None,
        other_processes=_whole(max((each for each in others if each is not None), default=None)),
        energy=_energy(
            times,
            _column(of_gpu, "energy_j"),
            _column(of_gpu, "power_w"),
            timed,
            idle=idle,
            processed=processed,
        ),
    )


def _possible(sample: Sample) -> Sample:
    """The sample without what no GPU can have."""
    return {name: value for name, value in sample.items() if _is_possible(name, value)}


def _is_possible(name: str, value: Any) -> bool:
    """Whether a GPU can have this value; an unknown one it can."""
    if name not in POSSIBLE or value is None:
        return True
    least, most = POSSIBLE[name]
    return bool(least <= value <= most)


def _column(samples: Sequence[Sample], name: str) -> Series:
    """One value of each sample; NaN where it is unknown."""
    values = [each.get(name) for each in samples]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _known(values: Series) -> Series:
    return values[~np.isnan(values)]


def _peak(values: Series) -> float | None:
    return float(known.max()) if len(known := _known(values)) else None


def _least(values: Series) -> float | None:
    return float(known.min()) if len(known := _known(values)) else None


def _mean(values: Series) -> float | None:
    return float(known.mean()) if len(known := _known(values)) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
