"""How tables write numbers, durations and unknown values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.results.metric import Metric

UNKNOWN = "-"


@dataclass(frozen=True)
class Unit:
    """A unit of time: its symbol, and how many of it are a second."""

    symbol: str
    per_s: float


MICROSECONDS, MILLISECONDS = Unit("µs", 1e6), Unit("ms", 1e3)


def yes_no(value: bool) -> str:
    """`yes` or `no`."""
    return "yes" if value else "no"


def listed(texts: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`; where a text has a comma, `a, 1; b, 2 and c`."""
    *first, last = texts
    separator = "; " if any("," in each for each in texts) else ", "
    return f"{separator.join(first)} and {last}" if first else last


def rate_of(rate: float | None) -> str:
    """A rate per second as a whole number, or with three digits below a hundred."""
    slow = rate is not None and rate < 99.5
    return number(rate, "{:.3g}" if slow else "{:,.0f}")


def latency_unit(latencies_s: Iterable[float | None]) -> Unit:
    """The unit of all latencies of a table: by the smallest of these."""
    known = [each for each in latencies_s if each is not None]
    return MICROSECONDS if known and min(known) < 1e-3 else MILLISECONDS


def latency_of(latency_s: float | None, unit: Unit) -> str:
    """A latency in this unit, without its symbol, with three digits or more."""
    value = None if latency_s is None else latency_s * unit.per_s
    return number(value, "{:#.3g}" if value is not None and value < 99.95 else "{:,.0f}")


def with_unit(value: float | None, metric: Metric) -> str:
    """A value of the metric with its unit, such as `9,500 samples/s` or `274 µs`."""
    if value is None:
        return UNKNOWN
    if metric.lower_is_better:
        unit = latency_unit([value])
        return f"{latency_of(value, unit)} {unit.symbol}"
    return f"{rate_of(value)} {metric.heading}"


def value_of(value: float | None, metric: Metric) -> str:
    """A value of the metric, with its unit where it is a latency: `9,500` or `274 µs`."""
    return with_unit(value, metric) if metric.lower_is_better else rate_of(value)


def interval_of(low: float, high: float, metric: Metric) -> str:
    """An interval of the metric, such as `9,400 to 9,600` or `270 to 281 µs`."""
    if metric.lower_is_better:
        unit = latency_unit([low])
        return f"{latency_of(low, unit)} to {latency_of(high, unit)} {unit.symbol}"
    return f"{rate_of(low)} to {rate_of(high)}"


def share_of_peak(share: float) -> str:
    """A share in whole percent, with one decimal below one percent: `31%`, `0.4%`."""
    return f"{share:.1%}" if share < 0.0095 else f"{share:.0%}"


def mebibytes(size_bytes: int | None) -> str:
    """A size in MiB; a dash where it is unknown."""
    return number(size_bytes / 2**20 if size_bytes else None, "{:,.0f} MiB")


def number(value: float | None, form: str) -> str:
    """The value in this form; a dash where it is unknown."""
    return UNKNOWN if value is None else form.format(value)
