"""The command `check-gpu`: whether everything works on the GPUs of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.again import Start
from suite.cli.grouped import grouped
from suite.cli.groups import AllGpus
from suite.cli.options import Frameworks, Reference, Results
from suite.errors import UsageError
from suite.report import check_table
from suite.results import archive, store
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.timelimit import TimeLimit


def check_gpu_with(start: Start) -> Callable[..., None]:
    """The command; `start` is that of `dlsuite run`, which this module does not import."""

    @grouped
    def check_gpu(
        resources: AllGpus,
        framework: Frameworks = None,
        max_time: Annotated[
            str | None,
            typer.Option(help="No check starts after it: 3m, 10m; default: the suite's (10m)."),
        ] = None,
        reference: Reference = "auto",
        results: Results = Path("results"),
    ) -> None:
        """Check that the frameworks work on this machine's GPUs; write one file with the result.

        Each framework multiplies matrices and trains LeNet in float32, TF32 and bfloat16, then
        small and larger models; a batch that is too large must end as out of memory. The most
        useful checks come first. The images or environments are made before; that time and that of
        the products do not count. A check that has started runs in every framework.

        Example: dlsuite check-gpu --max-time 3m
        """
        engine = resources.options()
        if engine.device == "cpu":
            raise UsageError("check-gpu needs a GPU, and --gpus is 0", hint="--gpus all")
        options = RunOptions(frameworks=tuple(framework or ()))
        notify = partial(print, file=sys.stderr)
        plan = plan_of(check_table.SUITE, options, device="cuda", notify=notify)
        limit = TimeLimit.of(max_time or plan.max_time)
        latest = results / "latest"
        before = latest.resolve()
        try:
            start(
                plan,
                engine,
                limit,
                results=results,
                if_busy=resources.if_busy,
                reference=reference,
            )
        finally:
            if latest.resolve() != before:
                _write(latest.resolve())

    return check_gpu


def _write(folder: Path) -> None:
    """Write the file that can be sent, where the run is one of this suite and has records."""
    if folder.name.endswith(check_table.SUITE) and store.record_files(folder):
        file = Path(f"{folder.name}.tar.gz")
        archive.write(folder, file)
        print(f"{file}: the whole result in one file; dlsuite verify {file} reads it")
