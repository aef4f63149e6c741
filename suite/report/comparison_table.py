"""A comparison of two sets of trials, for the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from suite.report.notes import warnings_of
from suite.report.numbers import UNKNOWN, latency_of, latency_unit, rate_of
from suite.report.table import of_rows
from suite.report.titles import batch_of, work_of
from suite.results.stats import CONFIDENCE

if TYPE_CHECKING:
    from suite.report.comparison import Comparison, Comparisons

LEFT = ("a | b", "b is")
NOTE = (
    "ratio: median of b over that of a, of rates or of p50 latencies, with its 95 % bootstrap "
    "interval; p: Mann-Whitney test of the runs. Interleaved runs: median over rounds of b over a, "
    "block by block; Wilcoxon signed-rank test of the rounds. Faster or slower: p at most 0.05, "
    "and an interval without 1. Of latencies, a ratio below 1 is faster."
)


def render(found: Comparisons) -> RenderableType:
    """A table for each workload, followed by other differences and unmatched trials."""
    parts: list[RenderableType] = []
    pairs = sorted(found.pairs, key=lambda pair: work_of(pair.a))
    for title, group in groupby(pairs, key=lambda pair: work_of(pair.a)):
        parts.append(of_rows(title, [cells_of(pair) for pair in group], left=LEFT))
    return Group(*parts, *map(Text, notes_of(found)))


def cells_of(pair: Comparison) -> dict[str, str]:
    """The cells of a pair, by column."""
    found, a, b = pair.difference, pair.a.record.configuration, pair.b.record.configuration
    tested = found is not None and found.p_value is not None
    return {
        "a | b": a if a == b else f"{a} | {b}",
        **_medians(pair),
        "runs": f"{len(pair.a.values)} | {len(pair.b.values)}",
        "ratio": f"{found.ratio:.3f}" if found else UNKNOWN,
        "95 % CI": f"{found.ci_low:.3f} to {found.ci_high:.3f}" if found and tested else UNKNOWN,
        "p": f"{found.p_value:.2g}" if found and tested else UNKNOWN,
        "b is": found.verdict if found else "not compared",
    }


def _medians(pair: Comparison) -> dict[str, str]:
    """The metric of both sides, below its heading; latencies have their unit in the first cell."""
    metric, medians = pair.a.metric, [each.measured.median for each in (pair.a, pair.b)]
    if not metric.lower_is_better:
        return {metric.heading: " | ".join(map(rate_of, medians))}
    unit = latency_unit(medians)
    texts = " | ".join(latency_of(each, unit) for each in medians)
    return {metric.heading: f"{texts} {unit.symbol}"}


def in_words(pair: Comparison) -> str | None:
    """The change of a latency, `p50 latency 5.1 % higher (slower)`; None where none is shown."""
    found, metric = pair.difference, pair.a.metric
    if not metric.lower_is_better or not found or found.verdict not in ("faster", "slower"):
        return None
    change = "higher" if found.ratio > 1 else "lower"
    return f"{metric.name} {abs(found.ratio - 1) * 100:.1f} % {change} ({found.verdict})"


def notes_of(found: Comparisons) -> Iterator[str]:
    """The lines below the tables: changes of latencies, and what else differs or is unknown."""
    for pair in found.pairs:
        if words := in_words(pair):
            workload, row = pair.b.record.workload, pair.b.record.configuration
            yield f"{row}, {workload.model}, {workload.scenario}{batch_of(pair.b)}: {words}"
    tested = [pair for pair in found.pairs if pair.difference and pair.difference.p_value]
    if any(pair.difference and not pair.difference.p_value for pair in found.pairs):
        yield "too few runs: a difference needs 4 on both sides, or 6 interleaved rounds"
        yield "  hint: dlsuite run ... --repeats 10"
    yield from (f"not compared: {pair.refused}" for pair in found.pairs if pair.refused)
    yield from _warnings(found)
    other = dict.fromkeys(fact for pair in found.pairs for fact in pair.other_differences)
    refused = " ".join(pair.refused or "" for pair in found.pairs)
    yield from (f"other difference: {fact}" for fact in other if fact not in refused)
    yield from found.unmatched
    yield NOTE
    if len(tested) > 1:
        chance = (1 - CONFIDENCE) * len(tested)
        yield f"of {len(tested)} comparisons, {chance:.2g} differ by chance where nothing changed"


def _warnings(found: Comparisons) -> Iterator[str]:
    """The warnings of both sides, one line for each kind."""
    kinds: dict[str, list[str]] = {}
    for side in ("a", "b"):
        trials = [getattr(pair, side) for pair in found.pairs]
        for (kind, _), details in warnings_of(trials).items():
            kinds.setdefault(kind, []).append(f"{side}: {', '.join(details)}")
    yield from (f"warning: {kind}: {'; '.join(sides)}" for kind, sides in kinds.items())


def as_json(found: Comparisons) -> str:
    """One object: the pairs, and the unmatched trials."""
    pairs = [
        {
            "a": {"run_id": pair.a.record.run_id, "trial_id": pair.a.record.trial_id},
            "b": {"run_id": pair.b.record.run_id, "trial_id": pair.b.record.trial_id},
            "samples_per_s": {
                "a": pair.a.samples_per_s.median,
                "b": pair.b.samples_per_s.median,
            },
            "metric": pair.a.metric.columns[0],
            "measured": {"a": pair.a.measured.median, "b": pair.b.measured.median},
            "difference": asdict(pair.difference) if pair.difference else None,
            "verdict": pair.difference.verdict if pair.difference else None,
            "in_words": in_words(pair),
            "speed": asdict(pair.interval) if pair.interval else None,
            "warnings": {
                side: [asdict(each) for each in trial.warnings]
                for side, trial in (("a", pair.a), ("b", pair.b))
            },
            "refused": pair.refused,
            "other_differences": pair.other_differences,
        }
        for pair in found.pairs
    ]
    return json.dumps({"pairs": pairs, "unmatched": found.unmatched}, indent=1)
