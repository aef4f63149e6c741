"""Trials that differ only in their batch size: which of them fit into memory, and are closed.

A larger batch needs more memory, so after one that does not fit no larger one is tried. In
inference, none is tried after two that are not faster than the smaller ones. The closing
proof of a large batch takes long, because its reference computes in float64 on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.models import MODELS
from suite.protocol.plan import SeriesKey, Trial
from suite.results.record import Closing, Error, Record

# Of a closing proof at a batch size above the smallest of its series: half a minute on 16 cores.
CLOSING_FLOPS = 2e12
GROWTH = 1.02  # of the rate; two batch sizes in a row below it end a series of inference


def closes(trial: Trial) -> bool:
    """Whether the first run of a trial ends with a closing proof of its own."""
    workload = trial.workload
    if trial.proof_batch_size in (None, workload.batch_size):
        return True
    flops = MODELS[workload.model]().flops_per_sample(workload.mode)
    return flops * workload.batch_size <= CLOSING_FLOPS


class Outcomes:
    """What is known about each series from its finished runs."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._too_large: dict[SeriesKey, int] = {}
        self._closings: dict[SeriesKey, dict[int, Closing]] = {}
        self._rates: dict[
            SeriesKey, dict[int, float]
        ] = {}  # of inference, in each trial's first run
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Add runs that have just finished."""
        for record in records:
            key, batch_size = record.series, record.workload.batch_size
            if record.status == "oom":
                known = self._too_large.get(key, batch_size)
                self._too_large[key] = min(known, batch_size)
            rate = record.samples_per_s if record.status == "ok" else None
            if record.inference and rate and record.repeat == 0:
                self._rates.setdefault(key, {})[batch_size] = rate
            closing = record.parity.closing
            if closing and closing.batch_size is None:
                self._closings.setdefault(key, {})[batch_size] = closing

    def why_untried(self, trial: Trial) -> Error | None:
        """Why the trial is not tried; None where its batch may fit, and may be faster."""
        batch_size = trial.workload.batch_size
        smallest = self._too_large.get(trial.series)
        if smallest is not None and batch_size > smallest:
            message = f"batch {smallest} did not fit into memory"
            return Error(error_class="OutOfMemory", message=message)
        knee = _knee(self._rates.get(trial.series, {}), batch_size)
        if knee is not None:
            message = f"the throughput does not grow after batch {knee}"
            return Error(error_class="NoGrowth", message=message)
        return None

    def closing(self, trial: Trial) -> Closing | None:
        """The closing proof of the largest smaller batch of the trial's series."""
        found = self._closings.get(trial.series, {})
        smaller = [batch_size for batch_size in found if batch_size < trial.workload.batch_size]
        if not smaller:
            return None
        largest = max(smaller)
        return found[largest].model_copy(update={"batch_size": largest})


def _knee(rates: dict[int, float], batch_size: int) -> int | None:
    """The batch size after which two larger ones, but smaller than this one, are no faster."""
    sizes = sorted(size for size in rates if size < batch_size)
    for position, size in enumerate(sizes[:-2]):
        best = max(rates[each] for each in sizes[: position + 1])
        if all(rates[each] < GROWTH * best for each in sizes[position + 1 : position + 3]):
            return size
    return None


def failures(records: Sequence[Record]) -> list[Record]:
    """The runs that failed; not those that show which batch size is too large for the memory."""
    smallest: dict[SeriesKey, int] = {}  # the smallest batch size that fits
    for record in records:
        if record.status == "ok":
            key, batch_size = record.series, record.workload.batch_size
            smallest[key] = min(batch_size, smallest.get(key, batch_size))

    def shows_the_limit(record: Record) -> bool:
        fits = smallest.get(record.series)
        return record.status == "oom" and fits is not None and fits < record.workload.batch_size

    return [
        record
        for record in records
        if record.status not in ("ok", "skipped") and not shows_the_limit(record)
    ]
