"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import signal
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from suite import app
from suite.report import table

cli = typer.Typer(
    name="dlsuite",
    help=(
        "The same deep-learning work in every framework, proven to be the same, and measured.\n\n"
        "Exit codes: 0 done; 1 a bug; 2 usage; 3 manifest; 4 data; 5 no environment; "
        "6 results; 7 a run failed; 8 parity failed; 9 conformance failed; 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="Obtain and check datasets.", no_args_is_help=True)
cli.add_typer(data, name="data")


class Format(StrEnum):
    table = "table"
    json = "json"


Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--framework",
        "-f",
        help="Only this framework, or framework:variant (pytorch:compiled); may be repeated.",
    ),
]
Results = Annotated[Path, typer.Option("--results", help="The folder that holds all runs.")]


@cli.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of failures.")] = False,
) -> None:
    app.settings.debug = debug


@cli.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite's name (dlsuite list) or a .yaml file.")],
    framework: Frameworks = None,
    model: Annotated[str | None, typer.Option(help="Only the workloads of this model.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="In place of the suite's.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each trial.")] = None,
    results: Results = Path("results"),
) -> None:
    """Run a suite: prove the frameworks do the same work, time them, show the table.

    Example: dlsuite run quick --framework pytorch --framework pytorch:compiled
    """
    app.run(
        suite,
        frameworks=framework or [],
        model=model,
        batch_size=batch_size,
        repeats=repeats,
        results=results,
    )


@cli.command()
def parity(
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    framework: Frameworks = None,
    suite: Annotated[str, typer.Option(help="The suite whose workloads are proven.")] = "quick",
    fresh: Annotated[bool, typer.Option(help="Compare again, whatever is cached.")] = False,
) -> None:
    """Compare each framework with a float64 reference over ten training steps.

    Example: dlsuite parity --model lenet
    """
    app.parity(suite, frameworks=framework or [], model=model, fresh=fresh)


@cli.command()
def report(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, or its id under --results.")
    ] = Path("latest"),
    format: Annotated[Format, typer.Option(help="table, or json and nothing else.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Show the summary of a run.

    Example: dlsuite report results/latest --format json
    """
    app.report(run_folder, results=results, as_json=format is Format.json)


@data.command()
def prepare(
    name: Annotated[str, typer.Argument(help="The dataset (dlsuite list).")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Only this folder, which holds the raw files.")
    ] = None,
) -> None:
    """Obtain a dataset from the first source that has it, verify it, convert it.

    Example: dlsuite data prepare mnist --from ~/mnist
    """
    app.prepare(name, source)


@cli.command("list")
def list_all() -> None:
    """Show the frameworks with their variants, the models, datasets and suites."""
    app.list_all()


@cli.command()
def doctor() -> None:
    """Say what this machine can run and what is missing, each with the next command."""
    app.doctor()


@cli.command()
def conformance(
    command: Annotated[
        list[str], typer.Argument(help="The worker's command; a trial's folder is appended.")
    ],
) -> None:
    """Put a worker, in any language, through the protocol's test (docs/protocol.md).

    Example: dlsuite conformance -- ./my-worker --fast
    """
    app.conformance(command)


def main() -> None:
    """Run the command line; a failure becomes one line, a hint and its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    errors = table.console(stderr=True)
    try:
        cli()
    except Exception as error:
        if app.settings.debug:
            traceback.print_exc()
        known = app.known(error)
        errors.print(f"error: {known}", markup=False, soft_wrap=True)
        errors.print(f"hint: {known.hint}", markup=False, soft_wrap=True)
        sys.exit(known.exit_code)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
