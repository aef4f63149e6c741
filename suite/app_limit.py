"""`limit`: what the device can do at most."""

from __future__ import annotations

from suite import owners
from suite.app_run import plan_of, progress, working
from suite.engines.choice import Wanted
from suite.errors import RunsFailed
from suite.owners import IfBusy
from suite.paths import home
from suite.report import limit_table, table


def limit(frameworks: list[str], *, as_json: bool, wanted: Wanted, if_busy: IfBusy) -> None:
    """Measure and print it; RunsFailed where no framework showed any."""
    plan = plan_of("quick", frameworks=frameworks, device=wanted.device)
    owner = owners.new_id()
    with (
        progress() as live,
        working(wanted, plan.frameworks, live, owner=owner, if_busy=if_busy) as (_, runner),
    ):
        runner.prepare(plan.frameworks)
        found = runner.measure_limit(plan, runner.inputs(plan))
    if not found.best:
        raise RunsFailed("no framework showed a limit", hint=f"see the logs in {home() / 'logs'}")
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        table.console().print(limit_table.render(found))
