"""Compares the accuracies of a run with several seeds: precisions, and frameworks in float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median, stdev

from suite.manifests.workloads import Workload
from suite.results import equivalence
from suite.results.equivalence import Equivalence
from suite.results.record import Record

MARGIN = 0.25  # in percentage points of accuracy

Accuracies = Mapping[int, float]  # seed -> accuracy on the test split after the last epoch, in %
Key = tuple[str, str, Workload]  # configuration, device, workload


@dataclass(frozen=True, kw_only=True)
class Row:
    """The accuracies of a configuration in a workload, compared with `against` seed by seed.

    `against` has only runs that are proven to be the same work.

    In bf16_mixed: with the same configuration in float32. In float32: with the median of the other
    configurations. `against` is None where there is nothing to compare with.
    """

    records: tuple[Record, ...]  # by seed
    accuracies: Accuracies = field(hash=False)
    against: Accuracies | None = field(hash=False)

    @property
    def record(self) -> Record:
        """Any of its records, for the values that all share."""
        return self.records[0]

    @property
    def mean(self) -> float | None:
        """The mean over seeds, in %."""
        return fmean(self.accuracies.values()) if self.accuracies else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds, in percentage points."""
        return stdev(self.accuracies.values()) if len(self.accuracies) > 1 else None

    @property
    def equivalence(self) -> Equivalence | None:
        """The test of the differences, in percentage points, over the seeds of both sides."""
        if self.against is None:
            return None
        seeds = sorted(self.accuracies.keys() & self.against.keys())
        differences = [self.accuracies[seed] - self.against[seed] for seed in seeds]
        return equivalence.paired(differences, margin=MARGIN)

    @property
    def problem(self) -> Record | None:
        """The first record that is not ok; None where all are."""
        return next((each for each in self.records if each.status != "ok"), None)


def several_seeds(records: Iterable[Record]) -> bool:
    """Whether the records are of a run that this module can compare."""
    return len({record.seed for record in records}) > 1


def repeated(records: Iterable[Record]) -> Record | None:
    """A record of the same row and seed as an earlier one; None where there is none."""
    known: set[tuple[Key, int]] = set()
    for record in records:
        if (key := (_key(record), record.seed)) in known:
            return record
        known.add(key)
    return None


def rows(records: Iterable[Record]) -> list[Row]:
    """A row for each configuration and workload: by model, then float32, then bf16_mixed."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(records, key=_order):
        groups.setdefault(_key(record), []).append(record)
    proven = {
        key: _accuracies(each for each in group if each.parity.proven)
        for key, group in groups.items()
    }
    return [
        Row(
            records=tuple(group),
            accuracies=_accuracies(group),
            against=_against(key, proven),
        )
        for key, group in groups.items()
    ]


def in_float32(workload: Workload) -> Workload:
    """The same workload in float32."""
    return workload.model_copy(update={"precision": "float32"})


def _key(record: Record) -> Key:
    return record.configuration, record.device, record.workload


def _order(record: Record) -> tuple[str, str, str, bool, str, int]:
    workload = record.workload
    title = in_float32(workload).model_dump_json()
    bfloat16 = workload.precision != "float32"
    return workload.model, title, record.device, bfloat16, record.configuration, record.seed


def _accuracies(records: Iterable[Record]) -> dict[int, float]:
    """The accuracy of each run that is ok and trained whole epochs, in %, by seed."""
    found = {
        record.seed: record.epochs[-1].test_accuracy
        for record in records
        if record.status == "ok" and record.epochs
    }
    return {seed: 100 * accuracy for seed, accuracy in found.items() if accuracy is not None}


def _against(key: Key, accuracies: Mapping[Key, Accuracies]) -> Accuracies | None:
    """What a row is compared with; None where there is nothing."""
    configuration, device, workload = key
    if workload.precision != "float32":
        return accuracies.get((configuration, device, in_float32(workload)))
    others = [
        found
        for other, found in accuracies.items()
        if other[0] != configuration and other[1:] == (device, workload) and found
    ]
    seeds = {seed for each in others for seed in each}
    return {seed: median(each[seed] for each in others if seed in each) for seed in seeds} or None
