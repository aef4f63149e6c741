"""The command `dlsuite`: its commands in groups, and the exit codes of failures."""

from __future__ import annotations

import errno
import resource
import signal
import sys
import traceback
from typing import Annotated

import typer

import suite
from suite.cli import (
    archive,
    check_gpu,
    cloud,
    compare,
    conformance,
    containers,
    data,
    explain,
    history,
    images,
    info,
    model,
    parity,
    peak,
    repeat,
    report,
    run,
    streams,
)
from suite.errors import DlsuiteError, EngineError, ResultsError
from suite.paths import share_with_group
from suite.report import table, terminal

EXIT_CODES = (
    "Exit codes: 0 success; 1 bug in dlsuite; 2 usage; 3 manifest; 4 data; 5 engine, image or "
    "environment; 6 results; 7 failed runs; 8 not the same work; 9 protocol violation; 10 busy; "
    "11 slower than allowed; 12 not verified; 13 a machine is left; 14 inconclusive; "
    "15 faster than allowed; 16 not importable; "
    "130 interrupted."
)
MEASURE, RESULTS, SETUP, WORKERS = "Measure", "Results", "Set up", "Workers and containers"

cli = typer.Typer(
    name="dlsuite",
    help=(
        "Runs the same deep-learning work in several frameworks, proves that it is the same, and "
        f"measures it.\n\n{EXIT_CODES}"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
cli.command(rich_help_panel=MEASURE)(run.run)
cli.command(rich_help_panel=MEASURE)(run.resume)
cli.command(rich_help_panel=MEASURE)(check_gpu.check_gpu_with(run.start))
cli.command(rich_help_panel=MEASURE)(parity.parity)
cli.command(rich_help_panel=MEASURE)(parity.selftest)
cli.command(rich_help_panel=MEASURE)(run.convergence)
cli.command(rich_help_panel=MEASURE)(peak.peak)
cli.command(rich_help_panel=RESULTS)(report.report)
cli.command(rich_help_panel=RESULTS)(report.site)
cli.command(rich_help_panel=RESULTS)(compare.compare)
cli.command(rich_help_panel=RESULTS)(explain.explain)
cli.command(rich_help_panel=RESULTS)(history.history)
cli.command(rich_help_panel=RESULTS)(history.query)
cli.command(rich_help_panel=RESULTS)(archive.export)
cli.command("import", rich_help_panel=RESULTS)(archive.import_run)
cli.command(rich_help_panel=RESULTS)(archive.verify_with(run.start))
cli.command(rich_help_panel=RESULTS)(archive.bundle)
cli.command(rich_help_panel=MEASURE)(repeat.repeat_with(run.start, archive.check_run))
cli.command("list", rich_help_panel=SETUP)(info.list_all)
cli.command(rich_help_panel=SETUP)(info.doctor)
cli.add_typer(data.data, name="data", rich_help_panel=SETUP)
cli.add_typer(model.model, name="model", rich_help_panel=SETUP)
cli.add_typer(cloud.cloud, name="cloud", rich_help_panel=MEASURE)
cli.add_typer(images.images, name="images", rich_help_panel=SETUP)
cli.command(rich_help_panel=WORKERS)(containers.shell)
cli.command(rich_help_panel=WORKERS)(containers.clean)
cli.command(rich_help_panel=WORKERS)(conformance.conformance)

_debug = False


def _show_version(requested: bool) -> None:
    if requested:
        print(f"dlsuite {suite.__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    global _debug
    _debug = debug


def main() -> None:
    """Run the command line; an error becomes one line, a hint and its exit code."""
    streams.configure()
    terminal.style_help()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _interrupt)
    code: str | int | None = 0
    share_with_group()
    try:
        cli()
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        if _debug:
            traceback.print_exc()
        code = _shown(as_known(error))
    if not code and (reason := streams.lost()):
        code = _shown(
            ResultsError(
                f"standard output: {reason}; it is not complete, but what the command does is done",
                hint="dlsuite report shows the newest run again",
            )
        )
    sys.exit(code)


def _shown(error: DlsuiteError) -> int:
    """The exit code of an error, after it is shown."""
    console = table.console(stderr=True)
    console.print(f"error: {error}", soft_wrap=True)
    console.print(f"hint: {error.hint}", soft_wrap=True)
    return error.exit_code


def as_known(error: Exception) -> DlsuiteError:
    """The error to show: the exception itself, a failed system call, or a bug."""
    if isinstance(error, DlsuiteError):
        return error
    if isinstance(error, OSError):  # also of a write to a full disk, which names no file
        reason = error.strerror or f"a file was not written whole: {error}"  # of NumPy
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if error.errno in (None, errno.EFBIG) and limit != resource.RLIM_INFINITY:
            reason += f"; ulimit -f allows {limit:,} bytes in a file"
        text = f"{error.filename}: {reason}" if error.filename else reason
        return EngineError(text, hint="dlsuite doctor")
    return DlsuiteError(
        f"bug in dlsuite: {type(error).__name__}: {error}",
        hint="run it again as dlsuite --debug ..., and report the traceback",
    )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
