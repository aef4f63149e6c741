"""The command `peak`: the highest rates of a device."""

from __future__ import annotations

from typing import Annotated

import typer

from suite.cli.grouped import grouped
from suite.cli.groups import Resources
from suite.cli.options import Format, Frameworks
from suite.cli.session import engine_on, progress
from suite.engines import sessions
from suite.errors import RunsFailed
from suite.paths import home
from suite.report import peak_table, table
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.runner import Runner


@grouped
def peak(
    resources: Resources,
    framework: Frameworks = None,
    format: Annotated[Format, typer.Option(help="table or json.")] = Format.table,
) -> None:
    """Measure the hardware peak: matrix products in each precision, and copies.

    `dlsuite run` measures it too, and shows the share of it that each row reaches (MFU).
    """
    options = resources.options()
    plan = plan_of("quick", RunOptions(frameworks=tuple(framework or ())), device=options.device)
    with (
        progress() as live,
        engine_on(
            options, plan.frameworks, live, session_id=sessions.new_id(), if_busy=resources.if_busy
        ) as (engine_used, work_dir),
    ):
        runner = Runner(engine_used, live, work_dir)
        inputs = runner.prepare(plan, ("data", "environments", "peak"))
        live.stage("peak")
        found = runner.measure_peak(plan, inputs, everything=True)
    if not found.best:
        unavailable = runner.frameworks.unavailable
        reasons = [f"{name}: {error.message}" for name, error in unavailable.items()]
        hints = [error.hint for error in unavailable.values() if error.hint]
        raise RunsFailed(
            "; ".join(["no framework measured a peak", *reasons]),
            hint=[*hints, f"see the logs in {home() / 'logs'}"][0],
        )
    if format is Format.json:
        print(found.model_dump_json(indent=1))
    else:
        table.console().print(peak_table.render(found))
