"""The command `report`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import By, ReportFormat, Results, RunName
from suite.cli.session import run_folder_of, show
from suite.errors import ResultsError, UsageError
from suite.report import (
    as_json,
    convergence,
    convergence_table,
    figures,
    ladder,
    machines,
    markdown,
    paper,
    paper_table,
    rows,
    run_data,
    scaling,
    scaling_table,
    table,
)
from suite.report.figures import render
from suite.report.figures.picture import picture
from suite.report.html import page
from suite.report.numbers import listed
from suite.report.run_data import RunData
from suite.report.summary import summarise
from suite.results import roofline, store
from suite.results.record import Record
from suite.runner import planfile


def report(
    run: RunName = Path("latest"),
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN...]", help="Further runs, for --by.")
    ] = None,
    format: Annotated[
        ReportFormat,
        typer.Option(help="table, json, markdown; a row for each run: csv, parquet."),
    ] = ReportFormat.table,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that opens offline.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Compare with this run on the page of --html."),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Write every figure as SVG."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--figure",
            metavar="KIND",
            help="One picture of a kind, with title, machine and versions: "
            f"{', '.join(figures.KINDS)}.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file of --figure: .svg, .png or .pdf."),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Marks on the page of --html show their values."),
    ] = False,
    scaling_only: Annotated[
        bool, typer.Option("--scaling", help="Only the speed-up of several devices over one.")
    ] = False,
    as_paper: Annotated[
        bool,
        typer.Option("--paper", help="Beside the published comparison that the run repeats."),
    ] = False,
    by: Annotated[
        By | None, typer.Option(help="machine: the rows of several runs side by side.")
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRICE/h",
            help="Dollars per hour of the machine, for --by; repeatable, one for each run.",
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Add the accuracies of this run, too; repeatable."),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Show the summary of a run: rates, or accuracies where it has several seeds.

    Examples: dlsuite report results/latest --format json ; dlsuite report --html report.html ;
    dlsuite report --figure rates --out rates.svg ; dlsuite report here there --by machine ;
    dlsuite report --paper
    """
    folder = run_folder_of(run, results)
    if (against or interactive) and not html:
        option = "--against" if against else "--interactive"
        raise UsageError(f"{option} needs --html", hint=f"dlsuite report {run} --html FILE")
    if by:
        _show_machines(
            [run_folder_of(each, results) for each in (run, *(more or ()))], price, format
        )
        return
    if more or price:
        raise UsageError(
            f"{'several runs need' if more else '--price needs'} --by machine",
            hint=f"dlsuite report {run} {' '.join(map(str, more or ()))} --by machine".replace(
                "  ", " "
            ),
        )
    if (kind is None) != (out is None):
        raise UsageError(
            "--figure and --out need each other",
            hint="dlsuite report --figure rates --out FILE.svg",
        )
    others = [run_folder_of(each, results) for each in also or ()]
    if others and (html or draw or scaling_only or out):
        raise UsageError("--also is for the table of accuracies", hint=f"dlsuite report {run}")
    if kind and out:
        _draw(run_data.read(folder), kind, out)
    if html or draw:
        other = run_folder_of(against, results) if against else None
        _write(folder, html=html, draw=draw, against=other, interactive=interactive)
    elif out:
        return
    elif as_paper:
        _show_paper(run_data.read(folder), format)
    elif scaling_only:
        _show_scaling(store.read(folder), folder, format)
    elif others:
        runs = (store.read(each) for each in (folder, *others))
        _show_accuracies([record for records in runs for record in records], format)
    else:
        _show_run(folder, run, format)


def _write(
    folder: Path,
    *,
    html: Path | None,
    draw: Path | None,
    against: Path | None,
    interactive: bool,
) -> None:
    """Write the page of a run, its figures, or both."""
    found = run_data.read(folder)
    other = run_data.read(against) if against else None
    with _writing():
        if html:
            page.write(html, found, other, interactive=interactive)
            print(html)
        if draw:
            written = render.write_files(figures.all_of(found), draw)
            print(f"{len(written)} files in {draw}")


def _draw(run: RunData, kind: str, path: Path) -> None:
    """Write the figures of one kind as one picture."""
    form = path.suffix.lower().removeprefix(".")
    if form not in render.FORMS:
        text = f"{path}: a picture is a file of {', '.join(render.FORMS)}"
        raise UsageError(text, hint="--out FILE.svg")
    if kind not in figures.KINDS:
        raise UsageError(f"unknown figure {kind!r}", hint=f"one of {', '.join(figures.KINDS)}")
    found = list(figures.KINDS[kind](run))
    if not found:
        others = [name for name, make in figures.KINDS.items() if any(make(run))]
        raise ResultsError(
            f"{run.folder} has no figure {kind!r}",
            hint=f"it has {listed(others) if others else 'none'}",
        )
    with _writing():
        path.write_bytes(render.content(picture(run, found), form))
    print(path)


def _show_run(folder: Path, run: Path, format: ReportFormat) -> None:
    """Print the summary of a run, and how many of its runs are missing."""
    records = store.read(folder)
    missing = planfile.missing(folder, records)
    forms: dict[ReportFormat, Callable[[], str]] = {
        ReportFormat.json: lambda: _json(records, folder, missing) + "\n",
        ReportFormat.markdown: lambda: _markdown(records, folder) + "\n",
        ReportFormat.csv: lambda: rows.as_csv(records),
    }
    if format is ReportFormat.parquet:
        _print_parquet(records)
    elif format is ReportFormat.table:
        show(records, folder)
    else:
        print(forms[format](), end="")
    if missing and format is not ReportFormat.json:
        text = f"{len(missing)} planned runs have no record yet; dlsuite resume {run} does them"
        table.console(stderr=format is not ReportFormat.table).print(text, soft_wrap=True)


def site(
    results: Annotated[Path, typer.Argument(help="The folder of all runs.")] = Path("results"),
    out: Annotated[Path, typer.Argument(help="The folder of the site.")] = Path("site"),
) -> None:
    """Write static HTML pages about all runs, for any web server.

    Example: dlsuite site results site
    """
    from suite.report.html import site as pages

    with _writing():
        written = pages.write(results, out)
    print(f"{len(written)} pages in {out}; open {out / pages.INDEX}")


@contextmanager
def _writing() -> Iterator[None]:
    """Turn a failure to write a file in the block into a ResultsError."""
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{error.filename or 'the file'} cannot be written: {error.strerror or error}",
            hint="choose another place",
        ) from None


def _print_parquet(records: list[Record]) -> None:
    """Write Parquet to standard output; UsageError where that is a terminal."""
    if sys.stdout.isatty():
        raise UsageError(
            "parquet is not for a terminal", hint="dlsuite report --format parquet > runs.parquet"
        )
    sys.stdout.buffer.write(rows.as_parquet(records))
    sys.stdout.buffer.flush()


def _show_paper(run: RunData, format: ReportFormat) -> None:
    """Print a run beside its published comparison; UsageError where it repeats none."""
    if format not in (ReportFormat.table, ReportFormat.markdown):
        raise UsageError("--paper has the forms table and markdown", hint="--format markdown")
    found = paper.Paper(run)
    if format is ReportFormat.markdown:
        print(paper_table.markdown(found))
    else:
        console = table.console()
        console.print(paper_table.render(found, console.width))


def _show_scaling(records: list[Record], folder: Path, format: ReportFormat) -> None:
    """Print the scaling of a run; UsageError where no trial has several devices."""
    summaries = summarise(records)
    if format not in (ReportFormat.table, ReportFormat.markdown):
        hint = "--format markdown"
        raise UsageError("--scaling has the forms table and markdown", hint=hint)
    if not scaling.has_several(summaries):
        hint = "dlsuite run scaling"
        raise UsageError(f"{folder} has no trial on several devices", hint=hint)
    rows = scaling.rows(summaries)
    if format is ReportFormat.markdown:
        print(scaling_table.markdown(rows))
    else:
        console = table.console()
        console.print(scaling_table.render(rows, console.width))


def _show_accuracies(records: list[Record], format: ReportFormat) -> None:
    """Print the accuracies of several runs; UsageError where they cannot be in one table."""
    if format not in (ReportFormat.table, ReportFormat.markdown):
        raise UsageError("--also has the forms table and markdown", hint="--format markdown")
    if not convergence.several_seeds(records):
        raise UsageError("--also is for runs with several seeds", hint="dlsuite convergence")
    if twice := convergence.repeated(records):
        raise UsageError(
            f"{twice.configuration}, {twice.workload.model}, {twice.workload.precision}: two runs"
            f" have seed {twice.seed}",
            hint="name each run once",
        )
    found = convergence.rows(records)
    if format is ReportFormat.markdown:
        print(convergence_table.markdown(found))
    else:
        table.console().print(convergence_table.render(found))


def _show_machines(
    folders: Sequence[Path], prices: Sequence[str] | None, format: ReportFormat
) -> None:
    """Print the rows of several runs by machine; UsageError where the prices do not fit."""
    if format not in (ReportFormat.table, ReportFormat.markdown):
        raise UsageError("--by has the forms table and markdown", hint="--format markdown")
    given: list[float | None] = [machines.price_of(text) for text in prices or ()]
    if len(given) not in (0, 1, len(folders)):
        raise UsageError(
            f"{len(given)} prices for {len(folders)} runs", hint="one --price, or one for each run"
        )
    every = given if len(given) == len(folders) else (given or [None]) * len(folders)
    found = machines.rows([run_data.read(folder) for folder in folders], every)
    if not found:
        raise ResultsError("no row of these runs was measured", hint="dlsuite report RUN")
    if format is ReportFormat.markdown:
        print(machines.markdown(found))
    else:
        console = table.console()
        console.print(machines.render(found, console.width))


def _json(records: list[Record], folder: Path, missing: list[str]) -> str:
    accuracies = (
        convergence_table.as_values(convergence.rows(records))
        if convergence.several_seeds(records)
        else None
    )
    summaries, peak = summarise(records), roofline.read(folder)
    notes = planfile.notes(folder)
    rungs = ladder.read(folder)
    return as_json.render(records[0].run_id, summaries, missing, peak, notes, accuracies, rungs)


def _markdown(records: list[Record], folder: Path) -> str:
    """The table of accuracies of a run with several seeds, else the tables of rates."""
    if convergence.several_seeds(records):
        return convergence_table.markdown(convergence.rows(records))
    return markdown.of_run(run_data.of(folder, records))
