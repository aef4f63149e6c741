"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import Format, Results, RunName
from suite.cli.session import run_folder_of, show
from suite.report import as_json, table
from suite.report.summary import summarise
from suite.results import roofline, store
from suite.runner import planfile


def report(
    run: RunName = Path("latest"),
    format: Annotated[Format, typer.Option(help="table or json.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Show the summary of a run.

    Example: dlsuite report results/latest --format json
    """
    folder = run_folder_of(run, results)
    records = store.read(folder)
    summaries, peak = summarise(records), roofline.read(folder)
    missing = planfile.missing(folder, records)
    if format is Format.json:
        print(as_json.render(records[0].run_id, summaries, missing, peak))
        return
    show(summaries, peak)
    if missing:
        text = f"{len(missing)} planned runs have no record yet; dlsuite resume {run} does them"
        table.console().print(text, soft_wrap=True)
