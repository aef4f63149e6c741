"""A comparison of two sets of trials, for the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from suite.report.comparison import Comparison, Comparisons
from suite.report.numbers import UNKNOWN, rate_of
from suite.report.rates_table import title_of
from suite.report.table import of_rows
from suite.results.stats import CONFIDENCE

LEFT = ("a | b", "b is")
NOTE = (
    "ratio: median samples/s of b over that of a, with its 95 % bootstrap interval; p: "
    "Mann-Whitney test of the runs. Interleaved runs: median over rounds of b over a, block by "
    "block; Wilcoxon signed-rank test of the rounds. Faster or slower: p at most 0.05, and an "
    "interval without 1."
)


def render(found: Comparisons) -> RenderableType:
    """A table for each workload, followed by other differences and unmatched trials."""
    parts: list[RenderableType] = []
    pairs = sorted(found.pairs, key=lambda pair: title_of(pair.a))
    for title, group in groupby(pairs, key=lambda pair: title_of(pair.a)):
        parts.append(of_rows(title, [cells_of(pair) for pair in group], left=LEFT))
    return Group(*parts, *map(Text, notes_of(found)))


def cells_of(pair: Comparison) -> dict[str, str]:
    """The cells of a pair, by column."""
    found, a, b = pair.difference, pair.a.record.configuration, pair.b.record.configuration
    tested = found is not None and found.p_value is not None
    return {
        "a | b": a if a == b else f"{a} | {b}",
        "samples/s": " | ".join(rate_of(each.samples_per_s.median) for each in (pair.a, pair.b)),
        "runs": f"{len(pair.a.rates)} | {len(pair.b.rates)}",
        "ratio": f"{found.ratio:.3f}" if found else UNKNOWN,
        "95 % CI": f"{found.ci_low:.3f} to {found.ci_high:.3f}" if found and tested else UNKNOWN,
        "p": f"{found.p_value:.2g}" if found and tested else UNKNOWN,
        "b is": found.verdict if found else "not compared",
    }


def notes_of(found: Comparisons) -> Iterator[str]:
    """The lines below the tables: what was not compared, other differences, what a column is."""
    tested = [pair for pair in found.pairs if pair.difference and pair.difference.p_value]
    if any(pair.difference and not pair.difference.p_value for pair in found.pairs):
        yield "too few runs: a difference needs at least 4 on both sides, or 6 interleaved rounds"
        yield "  hint: dlsuite run ... --repeats 10"
    yield from (f"not compared: {pair.refused}" for pair in found.pairs if pair.refused)
    other = dict.fromkeys(fact for pair in found.pairs for fact in pair.other_differences)
    yield from (f"other difference: {fact}" for fact in other)
    yield from found.unmatched
    yield NOTE
    if len(tested) > 1:
        chance = (1 - CONFIDENCE) * len(tested)
        yield f"of {len(tested)} equal pairs, {chance:.2g} would differ by chance"


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
            "difference": asdict(pair.difference) if pair.difference else None,
            "verdict": pair.difference.verdict if pair.difference else None,
            "refused": pair.refused,
            "other_differences": pair.other_differences,
        }
        for pair in found.pairs
    ]
    return json.dumps({"pairs": pairs, "unmatched": found.unmatched}, indent=1)
