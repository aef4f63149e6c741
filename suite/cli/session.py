"""Shared by commands: progress, the engine, the folder of a run, the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from suite.cli.options import IfBusy
from suite.engines import choice, sessions
from suite.engines.base import Engine
from suite.engines.options import EngineOptions
from suite.errors import Interrupted
from suite.parity import workers
from suite.report import (
    best_table,
    check_table,
    convergence,
    convergence_table,
    headline,
    ladder,
    ladder_table,
    rates_table,
    run_data,
    scaling,
    scaling_table,
    table,
)
from suite.report.live import Live
from suite.report.summary import summarise
from suite.results import roofline
from suite.results.record import Record
from suite.runner import planfile


@contextmanager
def progress() -> Iterator[Live]:
    """Show progress during the block; Ctrl-C becomes the error Interrupted."""
    try:
        with Live() as live:
            yield live
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; running workers were stopped", hint="run the command again"
        ) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Do runs of the plan in `folder`; Ctrl-C becomes the error Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; the worker was stopped, finished records are kept",
            hint=f"dlsuite resume {folder}",
        ) from None


@contextmanager
def engine_on(
    options: EngineOptions,
    frameworks: Iterable[str],
    live: Live,
    *,
    session_id: str,
    if_busy: IfBusy,
    shared: bool = False,
) -> Iterator[tuple[Engine, Path]]:
    """An engine for these frameworks, alone on this machine, and a folder for temporary files.

    `shared`: beside others that are shared too; with Docker, one after the other.
    """
    used = dict.fromkeys((*frameworks, *workers.FRAMEWORKS))
    on_nodes = options.engine == "slurm"  # which measure, and Slurm gives each of them to one job
    with (
        nullcontext()
        if on_nodes
        else sessions.measuring(if_busy.value, live.notify, shared=shared),
        sessions.session(session_id, keep=options.keep, hosts=options.hosts) as work_dir,
        choice.engine(options, used, session_id, live.notify, if_busy=if_busy.value) as engine,
    ):
        yield engine, work_dir


def run_folder_of(run: Path, results: Path) -> Path:
    """The run's folder, by its path or its name in `results`; `latest` is resolved."""
    return (run if run.is_dir() else results / run).resolve()


def show(records: list[Record], folder: Path) -> None:
    """Print the table of a run: of rates, or of accuracies where it has several seeds.

    Notes below it say what was left out of its plan.
    """
    console = table.console()
    if records and records[0].suite == check_table.SUITE:
        console.print(check_table.render(records, console.width, roofline.read(folder)))
        for line in check_table.problems(records):
            console.print(line, soft_wrap=True)
    elif convergence.several_seeds(records):
        console.print(convergence_table.render(convergence.rows(records)))
    else:
        summaries = summarise(records)
        console.print(rates_table.render(summaries, console.width, roofline.read(folder)))
        if answer := headline.of_run(run_data.of(folder, records)):
            console.print(answer)
        if best := best_table.render(summaries, console.width):
            console.print(best)
        if climbed := ladder.rows(summaries, ladder.read(folder)):
            console.print(ladder_table.render(climbed, console.width))
        if scaling.has_several(summaries):
            console.print(scaling_table.render(scaling.rows(summaries), console.width))
    for note in planfile.notes(folder):
        console.print(f"note: {note}", soft_wrap=True)
