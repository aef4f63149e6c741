"""How a plan is cut by its time limit before it starts."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from suite.cli import run
from suite.protocol.plan import Plan
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.timelimit import TimeLimit
from tests.conftest import ScriptEngine


class Cut(TimeLimit):
    """A limit that leaves out the last model when the plan is fitted a second time."""

    calls = 0

    def fitting(self, found: Any) -> Plan:
        plan: Plan = found.costs.plan
        Cut.calls += 1
        if Cut.calls < 2:
            return plan
        kept = plan.trials[0].workload.model
        return plan.only(each for each in plan.trials if each.workload.model == kept)


def test_the_inputs_of_a_plan_that_is_cut_after_its_preparation_are_those_of_the_rest(
    script_engine: Callable[[str], ScriptEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its digest would differ from that of a resume, which prepares only the rest."""
    monkeypatch.setattr(Cut, "calls", 0)
    plan = plan_of("zoo", RunOptions(models=("lenet", "kent_medium")), device="cpu")
    runner: Any = SimpleNamespace(
        engine=script_engine(""),
        prepare=lambda chosen: dict.fromkeys(chosen.input_works),
        placed=lambda chosen, inputs, reference: chosen,
        gpu_flops=lambda chosen, inputs: {},
        proven=lambda chosen, inputs: frozenset(),
        peak_known=lambda chosen: True,
    )
    live: Any = SimpleNamespace(announce=lambda text: None, estimated=lambda found: None)
    limit = Cut(text="1h", limit_s=3600, started_s=time.monotonic())
    chosen, inputs = run._prepared(runner, plan, limit, "auto", live)
    assert len(plan.input_works) == 2
    assert [work[0].model for work in inputs] == [chosen.trials[0].workload.model]
    assert tuple(inputs) == chosen.input_works
