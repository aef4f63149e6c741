"""Everything that a report of one run shows, read once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from suite.report import convergence, titles
from suite.report.comparison import Comparison, compare
from suite.report.summary import TrialSummary, summarise
from suite.results import roofline, store
from suite.results.certificate import Certificate, find
from suite.results.record import Record
from suite.results.roofline import HardwarePeak
from suite.runner import planfile


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A run's records and what belongs to them. Trials are by workload, then fastest first."""

    folder: Path
    records: tuple[Record, ...]
    trials: tuple[TrialSummary, ...]
    peak: HardwarePeak | None
    notes: tuple[str, ...]  # what was left out of the plan
    missing: tuple[str, ...]  # names of planned runs without a record
    title: str  # of its suite

    @cached_property
    def by_workload(self) -> dict[str, list[TrialSummary]]:
        """The trials of each workload, by its title."""
        return {title: list(group) for title, group in groupby(self.trials, key=titles.title_of)}

    @cached_property
    def _several_seeds(self) -> bool:
        return convergence.several_seeds(self.records)

    @cached_property
    def ratios(self) -> dict[str, tuple[Comparison, ...]]:
        """Each proven trial of a workload compared with its fastest one, by the title."""
        found = {}
        for title, trials in self.by_workload.items():
            proven = [each for each in trials if each.values and each.parity.proven]
            if len(proven) > 1:
                pairs = [compare(proven[:1], [each], across=True).pairs for each in proven[1:]]
                found[title] = tuple(pair for group in pairs for pair in group)
        return {title: pairs for title, pairs in found.items() if pairs}

    @cached_property
    def certificates(self) -> dict[str, Certificate]:
        """Of each trial, by its id; without trials whose certificate is no longer kept."""
        found = {}
        for trial in self.trials:
            key = trial.parity.certificate
            if key and (certificate := find(key, self.folder)):
                found[trial.record.trial_id] = certificate
        return found

    def label(self, trial: TrialSummary) -> str:
        """The trial's name in figures, with what several trials of its workload differ in."""
        seed = f", seed {trial.record.seed}" if self._several_seeds else ""
        return titles.name_of(trial) + titles.batch_of(trial) + seed

    def only(self, trials: Collection[TrialSummary]) -> RunData:
        """The same run with only these of its trials."""
        kept = {trial.record.trial_id for trial in trials}
        return replace(
            self,
            trials=tuple(each for each in self.trials if each.record.trial_id in kept),
            records=tuple(each for each in self.records if each.trial_id in kept),
        )


def read(folder: Path) -> RunData:
    """The run in `folder`; ResultsError where it has no records."""
    return of(folder, store.read(folder))


def of(folder: Path, records: Sequence[Record]) -> RunData:
    """The run in `folder`, whose records are known."""
    title, notes = planfile.described(folder)
    return RunData(
        folder=folder,
        records=tuple(records),
        trials=tuple(sorted(summarise(records), key=titles.order)),
        peak=roofline.read(folder),
        notes=notes,
        missing=tuple(planfile.missing(folder, list(records))),
        title=title or f"Suite {records[0].suite}",
    )
