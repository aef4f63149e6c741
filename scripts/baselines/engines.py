"""Run the quick suite's trials in virtual environments and in containers, and print the ratios.

A pair is one run by each engine, in alternating order; no run trains a whole epoch.

Usage: .venv/bin/python scripts/baselines/engines.py [PAIRS [FRAMEWORK ...]]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.engines import sessions
from suite.engines.base import Engine
from suite.engines.docker.engine import DockerEngine
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan, Work
from suite.report.live import Live
from suite.results import store
from suite.results.record import Record
from suite.runner.runner import Runner


def main(pairs: int, only: list[str]) -> None:
    suite = catalog.suite("quick")
    plan = expand(suite, catalog.frameworks(), catalog.tracks(), only=only)
    session_id = sessions.new_id()
    with ExitStack() as stack:
        work_dir = stack.enter_context(sessions.session(session_id))
        results = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        docker: Engine = stack.enter_context(DockerEngine(session_id))
        runners: dict[str, Runner] = {}
        for engine in (VenvEngine(), docker):
            folder = work_dir / engine.name
            folder.mkdir()
            runners[engine.name] = Runner(engine, Live(), folder)
        inputs = {name: runner.prepare(plan) for name, runner in runners.items()}
        for trial in plan.trials:
            short = [run for run in plan.runs if run.trial == trial and run.repeat == 1]
            one = replace(plan, trials=(trial,), runs=tuple(short))
            found = [pair(runners, inputs, one, results, number) for number in range(pairs)]
            report(trial.framework, found)


def pair(
    runners: dict[str, Runner],
    inputs: dict[str, dict[Work, Inputs]],
    plan: Plan,
    results: Path,
    number: int,
) -> dict[str, Record]:
    """One record by each engine; the pair's number decides their order."""
    found = {}
    for name in sorted(runners, reverse=bool(number % 2)):
        with store.run_folder(results, plan.suite) as folder:
            (found[name],) = runners[name].run(plan, inputs[name], folder)
    return found


def report(framework: str, found: list[dict[str, Record]]) -> None:
    ratios = [
        (each["docker"].samples_per_s or 0) / (each["venv"].samples_per_s or 1) for each in found
    ]
    engine_s = [each["docker"].times.engine_s or 0 for each in found]
    print(
        f"{framework:12} docker / venv: median {statistics.median(ratios):.3f} of {len(ratios)}"
        f" pairs, range {min(ratios):.3f} to {max(ratios):.3f};"
        f" engine {statistics.median(engine_s):.2f} s a run, at most {max(engine_s):.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5, sys.argv[2:])
