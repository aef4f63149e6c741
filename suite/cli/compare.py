"""The command `compare`: two runs, or two rows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import Format, Results, share_of
from suite.cli.session import run_folder_of
from suite.errors import Faster, Inconclusive, ResultsError, Slower, UsageError, nearest
from suite.manifests import catalog
from suite.manifests.files import names
from suite.manifests.tracks import EQUAL, configuration
from suite.protocol.expansion import Named, parse, split
from suite.report import comparison_table, table
from suite.report.comparison import Comparisons
from suite.report.comparison import compare as compare_trials
from suite.report.gate import Gate
from suite.report.summary import TrialSummary, summarise
from suite.results import store
from suite.results.record import Record

LAST = re.compile(r"last:([1-9][0-9]*)")


@dataclass(frozen=True)
class Side:
    """One side of a comparison: runs, and one of their rows or all."""

    runs: tuple[Path, ...]
    chosen: Named | None

    @property
    def name(self) -> str:
        """The run, or how many runs are taken together."""
        return self.runs[0].name if len(self.runs) == 1 else f"the {len(self.runs)} runs before"


def compare(
    a: Annotated[
        str,
        typer.Argument(
            help="RUN, FRAMEWORK:VARIANT/TRACK of the latest run, RUN@FRAMEWORK:VARIANT, or last:5:"
            " the five runs of the same suite before B."
        ),
    ],
    b: Annotated[str, typer.Argument(help="In the same form as A; the verdict is about B.")],
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Succeed only where b is shown not to be slower by more (3%)."
        ),
    ] = None,
    fail_unless_within: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Succeed only where b is shown to be as fast within it (10%)."
        ),
    ] = None,
    across_machines: Annotated[
        bool,
        typer.Option(
            "--across-machines", help="Compare also where CPU, cores, threads or GPUs differ."
        ),
    ] = False,
    format: Annotated[Format, typer.Option(help="table or json.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Test whether b is faster or slower than a.

    Examples: dlsuite compare results/before results/after --fail-if-slower 3% ;
    dlsuite compare pytorch jax
    """
    gate = _gate(fail_if_slower, fail_unless_within)
    side_b = _side(b, results)
    before = LAST.fullmatch(a)
    side_a = _before(side_b, int(before[1])) if before else _side(a, results)
    chosen_a, chosen_b = side_a.chosen or side_b.chosen, side_b.chosen or side_a.chosen
    same_run = {each.resolve() for each in side_a.runs} & {each.resolve() for each in side_b.runs}
    if same_run and chosen_a == chosen_b:
        raise UsageError(
            f"both sides have the run {min(same_run).name}",
            hint="name two runs, or two rows: dlsuite compare pytorch jax",
        )
    found = compare_trials(
        _trials(side_a, chosen_a),
        _trials(side_b, chosen_b),
        across=chosen_a != chosen_b,
        across_machines=across_machines,
    )
    if found.pairs:
        if format is Format.json:
            print(comparison_table.as_json(found))
        else:
            table.console().print(comparison_table.render(found))
    _judge(found, gate)


def _judge(found: Comparisons, gate: Gate | None) -> None:
    """Raise the error of the first of these that there is: slower, faster, unknown."""
    if not any(pair.difference for pair in found.pairs):
        raise ResultsError(f"nothing can be compared: {_reason(found)}", hint=_hint(found))
    if gate is None:
        return
    decisions: dict[str, list[str]] = {}
    refused = [*(pair.refused for pair in found.pairs if pair.refused), *found.unmatched]
    for pair in found.pairs:
        if pair.difference and pair.difference.p_value is None:
            refused.append(f"{pair.b.record.trial_id}: too few runs")
        elif pair.difference:
            decisions.setdefault(gate.decide(pair), []).append(gate.in_words(pair))
    limit = f"{gate.limit:.1%}"
    if slower := decisions.get("slower"):
        raise Slower(f"slower by more than {limit}: {'; '.join(slower)}", hint="dlsuite report")
    if faster := decisions.get("faster"):
        raise Faster(f"faster by more than {limit}: {'; '.join(faster)}", hint="dlsuite report")
    if refused:
        raise ResultsError(f"not all could be compared: {'; '.join(refused)}", hint=_hint(found))
    if unknown := decisions.get("inconclusive"):
        raise Inconclusive(
            f"inconclusive, neither within nor beyond the limit of {limit}: {'; '.join(unknown)}",
            hint="dlsuite run ... --repeats 20, a quieter machine, or a larger limit",
        )


def _reason(found: Comparisons) -> str:
    """Why nothing can be compared; one clause where two runs have nothing in common."""
    if refused := [pair.refused for pair in found.pairs if pair.refused]:
        return "; ".join(dict.fromkeys(refused))
    return found.unmatched[0] if found.unmatched else "there is no row"


def _hint(found: Comparisons) -> str:
    if any(pair.refused and "another machine" in pair.refused for pair in found.pairs):
        return "--across-machines, if the machine is what you compare"
    if any(pair.difference and pair.difference.p_value is None for pair in found.pairs):
        return "dlsuite run ... --repeats 10"
    return "dlsuite report"


def _gate(fail_if_slower: str | None, fail_unless_within: str | None) -> Gate | None:
    if fail_if_slower and fail_unless_within:
        raise UsageError(
            "--fail-if-slower and --fail-unless-within exclude each other",
            hint="--fail-unless-within also fails where b is slower",
        )
    if fail_unless_within:
        return Gate(limit=share_of(fail_unless_within, "--fail-unless-within"), both_sides=True)
    if fail_if_slower:
        return Gate(limit=share_of(fail_if_slower, "--fail-if-slower"), both_sides=False)
    return None


def _side(text: str, results: Path) -> Side:
    """RUN, FRAMEWORK[:VARIANT][/TRACK] of the last run, or RUN@FRAMEWORK[:VARIANT][/TRACK]."""
    run, at, row = text.rpartition("@")
    if run_folder_of(Path(text), results).is_dir():
        run, row = text, ""
    elif Path(text).is_file():
        raise UsageError(
            f"{text} is a file, not the folder of a run", hint=f"dlsuite import {text}, if exported"
        )
    elif not at and split(text)[0] not in names("framework"):
        runs = [path.name for path in results.glob("*/")]
        known = [*runs, *names("framework")]
        raise UsageError(f"no run or framework {text!r}; {nearest(text, known)}", hint="ls results")
    folder = run_folder_of(Path(run or "latest"), results)
    return Side((folder,), parse(row, catalog.frameworks(), catalog.tracks()) if row else None)


def _before(side: Side, number: int) -> Side:
    """The last `number` runs before the run of `side` that are of the same suite."""
    (run,) = side.runs
    suite = store.read(run)[0].suite
    earlier = sorted(each for each in run.parent.glob("*/") if each.name < run.name)
    same = [
        each
        for each in earlier
        if not each.is_symlink() and (records := store.read_all(each)) and records[0].suite == suite
    ]
    if len(same) < number:
        raise ResultsError(
            f"{run.parent} has {len(same)} runs of {suite} before {run.name}, not {number}",
            hint=f"last:{len(same)}" if same else f"dlsuite run {suite}",
        )
    return Side(tuple(same[-number:]), None)


def _records(side: Side) -> list[Record]:
    """The records of a side; those of several runs are numbered as the repeats of one run."""
    if len(side.runs) == 1:
        return store.read(side.runs[0])
    read = [store.read(run) for run in side.runs]
    repeats = 1 + max(each.repeat for records in read for each in records)
    return [
        each.model_copy(update={"run_id": side.name, "repeat": number * repeats + each.repeat})
        for number, records in enumerate(read)
        for each in records
    ]


def _trials(side: Side, chosen: Named | None) -> list[TrialSummary]:
    """The trials of a side; with `chosen` those of the one row that it names.

    Where several rows match, it is the framework's first variant, in the equal track.
    """
    found = summarise(_records(side))
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
        raise ResultsError(f"{side.name} has no {asked}; it has {has}", hint="dlsuite report")
    return [each for each in found if _row(each) in fitting]


def _row(trial: TrialSummary) -> tuple[str, str, str]:
    return trial.record.framework, trial.record.variant, trial.record.track
