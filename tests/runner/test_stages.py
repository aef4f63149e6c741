"""Staged plans: workload by workload, each proven right before its runs, until the time is up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suite.manifests import catalog
from suite.parity import certificates
from suite.parity.tensors import ProofFailed
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan, Trial
from suite.results import store
from suite.runner import stages
from suite.runner.runner import Runner
from tests.conftest import ScriptEngine, Silent
from tests.runner.test_runner import WORKS

SUITE = catalog.suite("check_gpu")


def plan_on(device: str, *only: str) -> Plan:
    return expand(SUITE, catalog.frameworks(), catalog.tracks(), only=only, devices=(device,))


def test_the_runs_are_in_the_order_of_the_workloads() -> None:
    plan = plan_on("cuda", "pytorch", "jax")
    named = [(run.trial.workload.model, run.trial.track, run.trial.device) for run in plan.runs]
    assert (
        named[:4]
        == [("lenet", "equal", "cuda"), ("lenet", "equal", "cuda")]
        + [("lenet", "tuned", "cuda")] * 2
    )
    assert named[-1] == ("lenet", "equal", "cuda:2")
    assert len(plan.runs) == len(plan.trials)


def test_a_workload_has_its_own_tracks_and_ranks() -> None:
    tracks = {trial.track for trial in plan_on("cuda", "pytorch").trials if trial.device == "cuda"}
    assert tracks == {"equal", "tuned"}
    bf16 = [t for t in plan_on("cuda", "pytorch").trials if t.workload.precision == "bf16_mixed"]
    assert [trial.track for trial in bf16] == ["equal"]


def test_trials_on_more_devices_than_there_are_are_left_out_with_a_note() -> None:
    plan = plan_on("cuda", "pytorch")
    one = stages.on_devices(plan, {"cpus": [0, 1], "gpus": [{}]})
    assert len(one.trials) == len(plan.trials) - 1 and len(one.runs) == len(one.trials)
    assert one.notes == ("left out: cuda:2; this machine has 2 cpu, 1 cuda",)
    assert stages.on_devices(plan, {"cpus": [0, 1], "gpus": [{}, {}]}) == plan
    few_cores = stages.on_devices(plan, {"cpus": [0], "gpus": [{}, {}]})
    assert few_cores.notes == ("left out: cuda:2; this machine has 1 cpu, 2 cuda",)


def test_each_workload_is_proven_right_before_its_runs_until_the_time_is_up(
    script_engine: Callable[[str], ScriptEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def certify(
        engine: object, trials: list[Trial], *others: object, **named: object
    ) -> dict[str, ProofFailed]:
        seen.append(f"proof of {trials[0].workload.model} {trials[0].workload.precision}")
        return {trial.trial_id: ProofFailed("not compared") for trial in trials}

    class Recording(Silent):
        def done(self, run, record):  # type: ignore[no-untyped-def]
            seen.append(f"{record.status} {record.workload.model} {record.workload.precision}")

    monkeypatch.setattr(certificates, "certify", certify)
    left = iter([True, True, True, False, False, False, False, False, False])
    monkeypatch.setattr(stages, "time_left", lambda plan: lambda: next(left))
    plan = stages.on_devices(plan_on("cpu", "pytorch"), {"cpus": [0], "gpus": []})
    (tmp_path / "work").mkdir()
    with script_engine(WORKS) as engine, store.run_folder(tmp_path / "results", "check") as folder:
        runner = Runner(engine, Recording(), tmp_path / "work")
        inputs = runner.inputs(plan)
        records = runner.run(plan, inputs, folder)
    assert seen[:4] == [
        "proof of lenet float32",
        "failed lenet float32",
        "proof of lenet float32",
        "failed lenet float32",
    ] or seen[:2] == ["proof of lenet float32", "ok lenet float32"]
    late = [each for each in records if each.error and each.error.error_class == "TimeLimit"]
    assert late and all(each.status == "skipped" for each in late)
    assert "the limit of 10m was reached" in str(late[0].error)
    assert len(records) == len(plan.runs)
