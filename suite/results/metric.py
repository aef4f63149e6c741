"""What trials are compared by: the rate, and in inference what the scenario measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.results.record import Record


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A value of each run, by which trials of one workload are ordered and compared."""

    name: str  # in a sentence
    plural: str
    heading: str  # of its column in a table
    of: Callable[[Record], float | None]  # None where the run has none
    columns: tuple[str, str, str]  # of the table `trials`: the median, and its interval
    lower_is_better: bool = False  # a latency in seconds; others are rates per second


RATE = Metric(
    name="rate",
    plural="rates",
    heading="samples/s",
    of=lambda record: record.samples_per_s,
    columns=("samples_per_s", "ci_low", "ci_high"),
)
LATENCY = Metric(
    name="p50 latency",
    plural="p50 latencies",
    heading="p50",
    of=lambda record: record.latency_s,
    columns=("p50_s", "p50_low_s", "p50_high_s"),
    lower_is_better=True,
)


def _held_rate(record: Record) -> float | None:
    """The rate of queries of scenario server; None where its latencies exceed the bound."""
    found = record.inference
    return found.rate_per_s if found and found.holds(record.workload.latency_bound_s) else None


QUERY_RATE = Metric(
    name="rate of queries",
    plural="rates of queries",
    heading="queries/s",
    of=_held_rate,
    columns=("rate_per_s", "rate_low_per_s", "rate_high_per_s"),
)
BY_SCENARIO = {
    None: RATE,
    "offline": RATE,
    "single_stream": LATENCY,
    "multi_stream": LATENCY,
    "server": QUERY_RATE,
}


def metric_of(scenario: str | None) -> Metric:
    """The metric of a scenario of inference; None is training."""
    return BY_SCENARIO[scenario]


def values_of(runs: Iterable[Record]) -> dict[int, float]:
    """The metric of each run with status ok that has one, by repeat."""
    found = {
        run.repeat: metric_of(run.workload.scenario).of(run) for run in runs if run.status == "ok"
    }
    return {repeat: value for repeat, value in found.items() if value}
