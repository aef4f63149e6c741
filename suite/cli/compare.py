"""The command `compare`: two runs, or two rows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import Format, Results
from suite.cli.session import run_folder_of
from suite.errors import ResultsError, Slower, UsageError, nearest
from suite.manifests import catalog
from suite.manifests.files import names
from suite.manifests.tracks import EQUAL, configuration
from suite.protocol.expansion import Named, parse, split
from suite.report import comparison_table, table
from suite.report.comparison import Comparisons
from suite.report.comparison import compare as compare_trials
from suite.report.summary import TrialSummary, summarise
from suite.results import store


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a run, and one of its rows or all."""

    run: Path
    chosen: Named | None


def compare(
    a: Annotated[
        str,
        typer.Argument(
            help="RUN, FRAMEWORK:VARIANT/TRACK of the latest run, or RUN@FRAMEWORK:VARIANT."
        ),
    ],
    b: Annotated[str, typer.Argument(help="In the same form as A; the verdict is about B.")],
    fail_if_slower: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Exit with 11 where b is slower by more (3%)."),
    ] = None,
    format: Annotated[Format, typer.Option(help="table or json.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Test whether b is faster or slower than a.

    Examples: dlsuite compare results/before results/after --fail-if-slower 3% ;
    dlsuite compare pytorch jax
    """
    allowed = None if fail_if_slower is None else _share(fail_if_slower)
    side_a, side_b = _side(a, results), _side(b, results)
    chosen_a, chosen_b = side_a.chosen or side_b.chosen, side_b.chosen or side_a.chosen
    found = compare_trials(
        _trials(side_a.run, chosen_a), _trials(side_b.run, chosen_b), across=chosen_a != chosen_b
    )
    if found.pairs:
        if format is Format.json:
            print(comparison_table.as_json(found))
        else:
            table.console().print(comparison_table.render(found))
    _judge(found, allowed)


def _judge(found: Comparisons, allowed: float | None) -> None:
    refused = [*(pair.refused for pair in found.pairs if pair.refused), *found.unmatched]
    compared = [pair for pair in found.pairs if pair.difference]
    if not compared:
        raise ResultsError(f"nothing can be compared: {'; '.join(refused)}", hint="dlsuite report")
    if allowed is None:
        return
    slow = [
        f"{pair.b.record.trial_id}: "
        + (comparison_table.in_words(pair) or f"{pair.difference.slower_by:.1%} slower")
        for pair in compared
        if pair.difference
        and pair.difference.verdict == "slower"
        and pair.difference.slower_by > allowed
    ]
    if slow:
        raise Slower(f"more than {allowed:.1%}: {'; '.join(slow)}", hint="dlsuite report")
    few = [
        f"{pair.b.record.trial_id}: too few runs"
        for pair in compared
        if pair.difference and pair.difference.verdict == "too few runs"
    ]
    if refused or few:
        reasons = "; ".join([*refused, *few])
        raise ResultsError(f"not all could be compared: {reasons}", hint="dlsuite run")


def _share(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", text.strip())
    if not match or float(match[1]) >= 100:
        raise UsageError(
            f"--fail-if-slower {text!r} is not a percentage", hint="--fail-if-slower 3%"
        )
    return float(match[1]) / 100


def _side(text: str, results: Path) -> Side:
    """RUN, FRAMEWORK[:VARIANT][/TRACK] of the last run, or RUN@FRAMEWORK[:VARIANT][/TRACK]."""
    run, at, row = text.rpartition("@")
    if run_folder_of(Path(text), results).is_dir():
        run, row = text, ""
    elif not at and split(text)[0] not in names("framework"):
        runs = [path.name for path in results.glob("*/")]
        known = [*runs, *names("framework")]
        raise UsageError(f"no run or framework {text!r}; {nearest(text, known)}", hint="ls results")
    folder = run_folder_of(Path(run or "latest"), results)
    return Side(folder, parse(row, catalog.frameworks(), catalog.tracks()) if row else None)


def _trials(run: Path, chosen: Named | None) -> list[TrialSummary]:
    """The trials of the run; with `chosen` those of the one row that it names.

    Where several rows match, it is the framework's first variant, in the equal track.
    """
    found = summarise(store.read(run))
    if chosen is None:
        return found
    framework, variant, track = chosen
    rows = {_row(each) for each in found}
    fitting = {row for row in rows if all(x in (None, y) for x, y in zip(chosen, row, strict=True))}
    if len(fitting) > 1:
        first = next(iter(catalog.framework(framework).variants))
        fitting &= {(framework, variant or first, track or EQUAL)}
    if not fitting:
        asked = framework + (f":{variant}" if variant else "") + (f"/{track}" if track else "")
        has = ", ".join(sorted(configuration(*row) for row in rows))
        raise ResultsError(f"{run.name} has no {asked}; it has {has}", hint="dlsuite report")
    return [each for each in found if _row(each) in fitting]


def _row(trial: TrialSummary) -> tuple[str, str, str]:
    return trial.record.framework, trial.record.variant, trial.record.track
