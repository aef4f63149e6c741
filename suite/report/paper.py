"""A run beside the published comparison that it repeats: figure by figure, finding by finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from suite.datasets import library
from suite.errors import UsageError
from suite.manifests import papers
from suite.manifests.devices import Devices
from suite.manifests.papers import SPEEDS, Cell, Claim, Finding, Measure, PaperManifest, Side
from suite.paths import MANIFESTS
from suite.results.equivalence import (
    RatioInterval,
    ratio_of_deviations,
    ratio_of_ratios,
    ratio_of_runs,
)
from suite.results.stats import Summary

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

FOLDER = MANIFESTS / "papers"
MIB = 2**20
Verdict = Literal["holds", "does not hold", "inconclusive", "not measured", ""]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A measured figure, with its interval where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published figure, and the trial that repeats it; None where the run has none."""

    cell: Cell
    trial: TrialSummary | None
    measured: Value | None

    @property
    def ratio(self) -> float | None:
        """Measured over published."""
        if self.measured is None or not self.cell.value:
            return None
        return self.measured.value / self.cell.value


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A claim's ratio to one of its other sides, published and measured."""

    of: Side
    to: Side
    published: tuple[float, ...]  # one for each hardware
    measured: RatioInterval | None
    missing: str | None  # the side that was not measured


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """A claim with its ratios."""

    claim: Claim
    ratios: tuple[Ratio, ...]

    @property
    def verdict(self) -> Verdict:
        """Of the worst of its ratios; empty where the claim states no limit."""
        verdicts = [self._of(ratio) for ratio in self.ratios]
        order: tuple[Verdict, ...] = ("does not hold", "not measured", "inconclusive", "holds")
        return next((each for each in order if each in verdicts), "")

    def _of(self, ratio: Ratio) -> Verdict:
        claim, found = self.claim, ratio.measured
        if ratio.missing:
            return "not measured"
        if claim.above is None and claim.below is None:
            return ""
        if found is None:
            return "inconclusive"
        if claim.above is not None:
            return _side(found.low > claim.above, found.high < claim.above)
        assert claim.below is not None
        return _side(found.high < claim.below, found.low > claim.below)


def _side(holds: bool, fails: bool) -> Verdict:
    return "holds" if holds else "does not hold" if fails else "inconclusive"


@dataclass(frozen=True, kw_only=True)
class JudgedFinding:
    """A finding with its claims."""

    finding: Finding
    claims: tuple[JudgedClaim, ...]

    @property
    def verdict(self) -> Verdict:
        """Of all claims, or of most of them; those that were not measured decide nothing."""
        verdicts = [each.verdict for each in self.claims]
        measured = [each for each in verdicts if each != "not measured"]
        if not measured:
            return "not measured"
        holding, failing = measured.count("holds"), measured.count("does not hold")
        if self.finding.quorum == "most":
            return _side(2 * holding > len(measured), 2 * failing >= len(measured))
        if "" in measured:
            return ""
        return _side(holding == len(measured), failing > 0)

    @property
    def measured_claims(self) -> int:
        """How many of its claims were measured."""
        return sum(each.verdict != "not measured" for each in self.claims)


class Paper:
    """The publication of a run. Raise UsageError where the run repeats none."""

    def __init__(self, run: RunData) -> None:
        found = papers.paper_of(run.records[0].suite)
        if found is None:
            raise UsageError(
                f"{run.folder} repeats no published comparison",
                hint="dlsuite run papers/kent-2023 --scale 0.01",
            )
        self.manifest: PaperManifest = found
        self.run = run

    @cached_property
    def cells(self) -> list[Cell]:
        """The published figures."""
        return papers.cells(self.manifest.figures, FOLDER) if self.manifest.figures else []

    @cached_property
    def _epochs_s(self) -> Mapping[tuple[str, str, str], Sequence[float]]:
        return papers.epochs_s(self.manifest.figures, FOLDER) if self.manifest.figures else {}

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each published figure."""
        return [self._row(cell) for cell in self.cells]

    @cached_property
    def findings(self) -> list[JudgedFinding]:
        """The findings, tested on the run."""
        return [
            JudgedFinding(
                finding=finding,
                claims=tuple(map(self._judged, finding.single_claims())),
            )
            for finding in self.manifest.findings
        ]

    def _row(self, cell: Cell) -> Row:
        side = self._ours(cell)
        trial = self._trial(side) if side else None
        measured = self._measured(cell.measure, trial) if trial else None
        return Row(cell=cell, trial=trial, measured=measured)

    @cached_property
    def _epochs(self) -> Mapping[str, int]:
        """The published number of epochs by model."""
        return {each.model: each.epochs for each in self.manifest.suite.workloads}

    def _measured(self, measure: Measure, trial: TrialSummary) -> Value | None:
        """The figure of a trial; a duration is that of as many samples as were published."""
        rate, workload = trial.samples_per_s, trial.record.workload
        if measure == "samples_per_s":
            return _value(rate, 1.0)
        if measure not in SPEEDS:
            found = _figure(measure, trial)
            return None if found is None else Value(value=found)
        samples = library.describe(library.of(workload)).samples["train"]
        epochs = self._epochs.get(workload.model, 1) if measure == "train_s" else 1
        return _value(rate, float(samples * epochs), inverse=True)

    def _ours(self, cell: Cell) -> Side | None:
        """Which of our trials a published figure is of; None where the suite has no such device."""
        figures = self.manifest.figures
        assert figures
        device = figures.devices[cell.hardware]
        if device is None:
            return None
        model = figures.models[cell.model] if cell.model else None
        return Side(framework=figures.frameworks[cell.framework], model=model, device=device)

    def _trial(self, side: Side) -> TrialSummary | None:
        """The fastest measured trial of a side, proven ones first."""
        fitting = [each for each in self.run.trials if each.values and _fits(each, side)]
        return max(fitting, key=lambda each: (each.parity.proven, each.speed), default=None)

    def _judged(self, claim: Claim) -> JudgedClaim:
        return JudgedClaim(claim=claim, ratios=tuple(self._ratio(claim, side) for side in claim.to))

    def _ratio(self, claim: Claim, to: Side) -> Ratio:
        sides = [claim.of, to]
        if claim.over:
            changed = Side(**claim.over.model_dump())
            sides += [changed.within(claim.of), changed.within(to)]
        trials = [self._trial(side) for side in sides]
        missing = next((str(s) for s, t in zip(sides, trials, strict=True) if t is None), None)
        known = [trial for trial in trials if trial]
        return Ratio(
            of=claim.of,
            to=to,
            published=self._published(claim, sides),
            measured=None if missing else _interval(claim, known),
            missing=missing,
        )

    def _published(self, claim: Claim, sides: Sequence[Side]) -> tuple[float, ...]:
        """The claim's ratio in the published figures, on each hardware that has all of its sides.

        Where the sides are on different hardware, by the first figure of each.
        """
        values = [self._published_values(claim, side) for side in sides]
        common = [each for each in values[0] if all(each in found for found in values)]
        rows = [[found[each] for found in values] for each in common]
        if not rows and all(values):
            rows = [[next(iter(found.values())) for found in values]]
        return tuple(_ratio_of(row) for row in rows)

    def _published_values(self, claim: Claim, side: Side) -> dict[str, float]:
        """The compared figure of a side by hardware."""
        found: dict[str, float] = {}
        for cell in self.cells:
            if cell.value and self._is(cell, side):
                value = self._compared(claim, cell)
                if value:
                    found.setdefault(cell.hardware, value)
        return found

    def _compared(self, claim: Claim, cell: Cell) -> float | None:
        """What a claim compares, from a published figure; None where the figure is another one."""
        assert cell.value
        if claim.compared == "accuracy":
            return cell.value if cell.measure == "accuracy" else None
        if claim.compared == "epoch_variation":
            durations = self._epochs_s.get((cell.framework, cell.model, cell.hardware))
            return stdev(durations) / fmean(durations) if durations else None
        power = SPEEDS.get(cell.measure)
        return cell.value**power if power else None

    def _is(self, cell: Cell, side: Side) -> bool:
        """Whether a published figure is of a side."""
        ours = self._ours(cell)
        if ours is None:
            return False
        wanted = side.model_dump(exclude_none=True)
        own = ours.model_dump()
        return all(own[name] in (None, value) for name, value in wanted.items())

    def differences(self) -> Iterator[tuple[str, str, str]]:
        """What differs: its name, as published, and here."""
        record = self.run.records[0]
        here = {
            "hardware": _machine(record.environment),
            "precision": record.arithmetic,
            "software": ", ".join(
                dict.fromkeys(
                    f"{each.record.framework} {each.framework_version}"
                    for each in sorted(self.run.trials, key=lambda each: each.record.framework)
                    if each.framework_version
                )
            ),
            "data": ", ".join(dict.fromkeys(each.workload.dataset for each in self.run.records)),
        }
        for name, published in self.manifest.setting.items():
            yield name, published, here.get(name, "as published")
        for model, workload in {
            each.workload.model: each.workload for each in self.run.records
        }.items():
            published_epochs = self._epochs.get(model)
            part = workload.epoch_samples
            if part or workload.epochs != published_epochs:
                of_part = f", each of {part:,} samples" if part else ""
                yield f"epochs of {model}", str(published_epochs), f"{workload.epochs}{of_part}"


def _ratio_of(values: Sequence[float]) -> float:
    """The ratio of two values, or of two such ratios."""
    ratio = values[0] / values[1]
    return ratio if len(values) == 2 else ratio / (values[2] / values[3])


def _machine(environment: Mapping[str, object]) -> str:
    cpus = environment.get("cpus")
    cores = f"{len(cpus)} cores" if isinstance(cpus, list) else ""
    return ", ".join(filter(None, (str(environment.get("cpu") or ""), cores)))


def _fits(trial: TrialSummary, side: Side) -> bool:
    """Whether a trial is one of a side. A framework's name alone means its default variant too."""
    record = trial.record
    names = (record.framework, f"{record.framework}:{record.variant}")
    return (
        (side.framework is None or side.framework in names)
        and (side.model is None or side.model == record.workload.model)
        and (side.device is None or Devices.parse(side.device) == record.devices)
    )


def _figure(measure: Measure, trial: TrialSummary) -> float | None:
    """The figure of a trial that a publication calls `measure`; not a rate or a duration."""
    record = trial.record
    last = record.epochs[-1] if record.epochs else None
    gpu = record.telemetry.gpu if record.telemetry else None
    memory_bytes = gpu.used_mean_bytes if gpu else None
    energy, duration_s = record.energy, sum(each.duration_s for each in record.timed_blocks)
    powered = energy and duration_s and record.devices.kind == "cuda"
    return {
        "accuracy": trial.accuracy,
        "train_accuracy": last.train_accuracy if last else None,
        "train_loss": last.train_loss if last else None,
        "gpu_memory_mib": memory_bytes / MIB if memory_bytes else None,
        "gpu_memory_bytes": memory_bytes,
        "gpu_power_w": energy.gross_j / duration_s if energy and powered else None,
    }[measure]


def _value(rate: Summary, factor: float, *, inverse: bool = False) -> Value | None:
    if rate.median is None:
        return None
    if not inverse:
        return Value(value=rate.median, low=rate.ci_low, high=rate.ci_high)
    return Value(
        value=factor / rate.median,
        low=factor / rate.ci_high if rate.ci_high else None,
        high=factor / rate.ci_low if rate.ci_low else None,
    )


def _interval(claim: Claim, trials: Sequence[TrialSummary]) -> RatioInterval | None:
    """The claim's ratio with its interval, from two trials, or from four of a ratio of ratios."""
    values = [_values(claim, trial) for trial in trials]
    if claim.compared == "epoch_variation":
        return ratio_of_deviations(values[1], values[0])
    if len(values) == 4:
        return ratio_of_ratios((values[3], values[2]), (values[1], values[0]))
    return ratio_of_runs(values[1], values[0])


def _values(claim: Claim, trial: TrialSummary) -> list[float]:
    """One value for each run; of the variation of epochs, for each epoch after the first one."""
    runs = [run for run in trial.runs.values() if run.status == "ok"]
    if claim.compared == "epoch_variation":
        return [epoch.duration_s for run in runs for epoch in run.epochs[1:]]
    if claim.compared == "accuracy":
        found = [run.epochs[-1].test_accuracy for run in runs if run.epochs]
        return [each for each in found if each is not None]
    inverse = trial.metric.lower_is_better
    return [1 / each if inverse else each for each in trial.values.values()]
