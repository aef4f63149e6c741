"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import ReportFormat, Results, RunName
from suite.cli.session import run_folder_of, show
from suite.errors import UsageError
from suite.report import as_json, convergence, convergence_table, scaling, scaling_table, table
from suite.report.summary import summarise
from suite.results import roofline, store
from suite.results.record import Record
from suite.runner import planfile


def report(
    run: RunName = Path("latest"),
    format: Annotated[
        ReportFormat, typer.Option(help="table, json, or (of several seeds) markdown.")
    ] = ReportFormat.table,
    scaling_only: Annotated[
        bool, typer.Option("--scaling", help="Only the speed-up of several devices over one.")
    ] = False,
    results: Results = Path("results"),
) -> None:
    """Show the summary of a run: rates, or accuracies where it has several seeds.

    Example: dlsuite report results/latest --format json
    """
    folder = run_folder_of(run, results)
    records = store.read(folder)
    missing = planfile.missing(folder, records)
    if scaling_only:
        _show_scaling(records, folder, format)
        return
    if format is ReportFormat.json:
        print(_json(records, folder, missing))
        return
    if format is ReportFormat.markdown:
        print(_markdown(records, folder))
    else:
        show(records, folder)
    if missing:
        text = f"{len(missing)} planned runs have no record yet; dlsuite resume {run} does them"
        table.console(stderr=format is ReportFormat.markdown).print(text, soft_wrap=True)


def _show_scaling(records: list[Record], folder: Path, format: ReportFormat) -> None:
    """Print the scaling of a run; UsageError where no trial has several devices."""
    summaries = summarise(records)
    if not scaling.has_several(summaries) or format is ReportFormat.json:
        raise UsageError(
            f"{folder} has no trial on several devices"
            if format is not ReportFormat.json
            else "--scaling has the forms table and markdown",
            hint="dlsuite run scaling",
        )
    rows = scaling.rows(summaries)
    if format is ReportFormat.markdown:
        print(scaling_table.markdown(rows))
    else:
        table.console().print(scaling_table.render(rows))


def _json(records: list[Record], folder: Path, missing: list[str]) -> str:
    accuracies = (
        convergence_table.as_values(convergence.rows(records))
        if convergence.several_seeds(records)
        else None
    )
    summaries, peak = summarise(records), roofline.read(folder)
    notes = planfile.notes(folder)
    return as_json.render(records[0].run_id, summaries, missing, peak, notes, accuracies)


def _markdown(records: list[Record], folder: Path) -> str:
    if not convergence.several_seeds(records):
        raise UsageError(
            f"{folder} has records of one seed; markdown shows accuracies of several",
            hint=f"dlsuite report {folder}",
        )
    return convergence_table.markdown(convergence.rows(records))
