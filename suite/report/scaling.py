"""Scaling: how much faster several devices are than one.

Strong scaling divides one batch among the devices, weak scaling gives each device a batch of its
own. Speed-up is the ratio of the rates, in samples per second; efficiency is the speed-up divided
by the number of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from suite.manifests.suites import Scaling
from suite.report.summary import TrialSummary
from suite.results import stats
from suite.results.record import Record

Kind = Scaling | Literal["base", "no base"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trial, compared with the same work on one device."""

    kind: Kind  # base: the trial with one device; no base: there is none to compare with
    trial: TrialSummary
    speed_up: stats.Difference | None  # None: no such work on one device, or one is not proven

    @property
    def name(self) -> str:
        """The configuration, with precision and input where they are not float32 and host."""
        workload = self.trial.record.workload
        precision = "" if workload.precision == "float32" else f", {workload.precision}"
        of_input = "" if workload.input == "host" else f", input {workload.input}"
        return self.trial.record.configuration + precision + of_input

    @property
    def efficiency(self) -> float | None:
        """The speed-up divided by the number of devices; 1 is perfect."""
        return self.speed_up.ratio / self.trial.record.devices.ranks if self.speed_up else None

    @property
    def energy_j_per_sample(self) -> float | None:
        """Joules per sample: of the machine on a CPU, of all ranks on GPUs."""
        energy = self.trial.energy
        return energy.gross_j_per_sample if energy else None


def rows(summaries: Sequence[TrialSummary]) -> list[Row]:
    """A row for each trial on one device, and one for each kind of scaling of the others.

    A trial with several devices is compared with one device of the same size: on a CPU, one with as
    many cores as each rank has. Where no such trial was measured, it has a row without a speed-up.
    Where one of the two is not proven to be the same work, its row has no speed-up either.
    """
    measured = [each for each in summaries if each.values]
    bases = {_key(each.record): each for each in measured if each.record.devices.ranks == 1}
    found = [row for trial in measured for row in _rows(trial, bases)]
    return sorted(found, key=_order)


def has_several(summaries: Sequence[TrialSummary]) -> bool:
    """Whether a trial has several devices."""
    return any(each.record.devices.ranks > 1 for each in summaries)


Key = tuple[object, ...]


def _key(record: Record, batch_size: int | None = None) -> Key:
    """Equal for the same work of one framework on devices of the same size."""
    workload = record.workload.model_copy(
        update={"batch_size": batch_size or record.workload.batch_size}
    )
    return record.configuration, workload, record.devices.kind, record.cpu_parts, record.seed


def _rows(trial: TrialSummary, bases: dict[Key, TrialSummary]) -> Iterator[Row]:
    record = trial.record
    ranks, batch_size = record.devices.ranks, record.workload.batch_size
    if ranks == 1:
        yield Row(kind="base", trial=trial, speed_up=None)
        return
    sizes: dict[Scaling, int] = {"strong": batch_size, "weak": batch_size // ranks}
    found = {kind: base for kind, size in sizes.items() if (base := bases.get(_key(record, size)))}
    for kind, base in found.items():
        ratio = stats.compare([*base.values.values()], [*trial.values.values()])
        proven = base.parity.proven and trial.parity.proven
        yield Row(kind=kind, trial=trial, speed_up=ratio if proven else None)
    if not found:
        yield Row(kind="no base", trial=trial, speed_up=None)


def _order(row: Row) -> tuple[object, ...]:
    record = row.trial.record
    kinds = ("base", "strong", "weak", "no base")
    return (
        record.workload.model,
        record.configuration,
        kinds.index(row.kind),
        record.devices.ranks,
        record.workload.batch_size,
    )
