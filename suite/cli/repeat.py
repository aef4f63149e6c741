"""The command `repeat`: a run is done again, here, and compared with the first one row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from suite.cli import again
from suite.cli.again import Start
from suite.cli.options import Engine, Results, share_of
from suite.cli.session import run_folder_of
from suite.report import again as comparison
from suite.report.notes import warnings_of
from suite.report.summary import TrialSummary, summarise
from suite.results import archive, store
from suite.runner import planfile

# Of warnings: the rates are not those of a quiet machine.
DISTURBED = ("disturbed blocks are counted", "other processes ran")


def repeat_with(start: Start, verify: Callable[[Path], None]) -> Callable[..., None]:
    """The command `repeat`; `start` is that of `dlsuite run`, `verify` checks a run.

    This module does not import them, so that the chain of imports stays short.
    """

    def repeat(
        run: Annotated[Path, typer.Argument(help="A file of `dlsuite bundle`, or a run.")],
        engine: Annotated[
            Engine | None, typer.Option(help="Instead of the engine of the first run.")
        ] = None,
        within: Annotated[
            str, typer.Option(metavar="SHARE", help="The largest change that still agrees.")
        ] = f"{comparison.BOUND:.0%}",
        results: Results = Path("results"),
    ) -> None:
        """Do all runs of a finished run again, here, and compare each row with that of then.

        The run is verified first. On an equal machine rates are compared, on another one the
        ratios to the first row of each workload. A row agrees, differs (exit code 12), or cannot be
        judged (14).

        Example: dlsuite repeat 20261121-120000-quick.tar.gz
        """
        bound = share_of(within, "--within")
        folder = archive.read(run, results) if run.is_file() else run_folder_of(run, results)
        verify(folder)
        planned, records = planfile.read(folder), store.read(folder)
        options = planned.engine_options
        if engine:
            options = replace(options, engine=engine.value)
        new = again.run_again(planned.plan, options, results, start)
        for line in _differences(folder, new):
            print(f"note: {line}")
        now = store.read(new)
        machines = [planfile.machine_of(each[0].environment) for each in (records, now)]
        rates = machines[0] == machines[1]
        if not rates:
            print(f"another machine: {machines[1]}, then {machines[0]}; ratios are compared")
        then = summarise(records)
        known = {each.record.trial_id for each in then}
        rows = [each for each in summarise(now) if each.record.trial_id in known]
        for which, trials in (("the first run", then), ("this run", rows)):
            for line in _disturbances(trials):
                print(f"note: {which}: {line}")
        found = comparison.compare(then, rows, bound=bound, rates=rates)
        again.judge(found, new, "rate" if rates else "ratio")

    return repeat


def _disturbances(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """What else the machine did, where it is a part of the rates."""
    for (kind, _), details in warnings_of(trials).items():
        if kind in DISTURBED:
            yield f"{kind}: {', '.join(details)}"


def _differences(first: Path, second: Path) -> Iterator[str]:
    """What the second run does not have from the first: its worker, its locks, its inputs."""
    then, now = planfile.parsed(first), planfile.parsed(second)
    if then.worker_sha256 != now.worker_sha256:
        yield "the source of the worker is another one"
    for name, lock in then.locks.items():
        if now.locks.get(name, lock) != lock:
            yield f"the lock of {name} is another one"
    if then.inputs_sha256 != now.inputs_sha256:
        yield "a model or its data is another one"
