from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.datasets import obtain
from suite.engines.options import EngineOptions
from suite.engines.venv.engine import VenvEngine
from suite.errors import ResultsError
from suite.protocol.plan import Plan
from suite.runner import planfile
from suite.runner.planfile import Planned
from tests.results.test_record import record


@pytest.fixture
def planned(quick: Callable[..., Plan]) -> Planned:
    return Planned(
        session_id="a1",
        engine_options=EngineOptions(engine="docker", gpus="2", memory="8GiB"),
        worker_sha256="0" * 64,
        locks={"jax": "1" * 64},
        plan=quick("jax", "mxnet", repeats=2),
    )


def test_a_written_plan_can_be_read_back(planned: Planned, tmp_path: Path) -> None:
    planfile.write(tmp_path, planned)
    assert planfile.read(tmp_path) == planned


def test_runs_without_a_record_are_missing_in_the_order_of_the_plan(
    planned: Planned, tmp_path: Path
) -> None:
    assert planfile.missing(tmp_path, []) == []  # a folder without a plan
    planfile.write(tmp_path, planned)
    first, *others = planned.plan.runs
    done = [record(trial_id=first.trial.trial_id, repeat=first.repeat)]
    assert planfile.missing(tmp_path, done) == [run.name for run in others]


def test_an_invalid_plan_or_one_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no plan to resume"):
        planfile.read(tmp_path)
    file = tmp_path / planfile.NAME
    file.write_text('{"version": 1}')
    with pytest.raises(ResultsError, match="plan of version 1, this is 9"):
        planfile.read(tmp_path)
    for text in (f'{{"version": {planfile.VERSION}, "session": "x"}}', "{", "[]", "null"):
        file.write_text(text)
        with pytest.raises(ResultsError, match="not a plan"):
            planfile.read(tmp_path)
    (tmp_path / "plan.yaml").write_text("version: 6")
    with pytest.raises(ResultsError, match="plan of version 6 or older, this is 9"):
        planfile.read(tmp_path)


def test_reports_of_a_run_with_a_damaged_plan_have_a_note(tmp_path: Path) -> None:
    (tmp_path / planfile.NAME).write_text("{")
    (note,) = planfile.notes(tmp_path)
    assert "planned runs without a record are unknown" in note and "not a plan" in note
    assert planfile.missing(tmp_path, []) == []


def test_a_plan_with_an_unknown_model_is_refused(planned: Planned, tmp_path: Path) -> None:
    planfile.write(tmp_path, planned)
    file = tmp_path / planfile.NAME
    file.write_text(file.read_text().replace('"lenet"', '"mynet"'))
    with pytest.raises(ResultsError, match=r"plan\.json: unknown model mynet$"):
        planfile.read(tmp_path)


def test_a_plan_cannot_be_resumed_with_another_worker_or_lock(
    planned: Planned, tmp_path: Path
) -> None:
    engine = VenvEngine()
    same = replace(planned, worker_sha256=engine.worker_sha256)
    same.must_match(engine, {**planned.locks, "mxnet": "2" * 64}, {}, tmp_path)  # mxnet had no lock
    with pytest.raises(ResultsError, match="cannot be resumed: jax changed"):
        same.must_match(engine, {"jax": "2" * 64}, {}, tmp_path)
    with pytest.raises(ResultsError, match="cannot be resumed: the worker changed"):
        planned.must_match(engine, planned.locks, {}, tmp_path)


def test_a_plan_cannot_be_resumed_with_other_data_or_on_another_machine(
    planned: Planned, tmp_path: Path
) -> None:
    engine = VenvEngine()
    work = planned.plan.trials[0].work
    inputs = {work: obtain.obtain(work[0], seed=1, folder=tmp_path, notify=print)}
    same = replace(
        planned,
        worker_sha256=engine.worker_sha256,
        machine=planfile.machine_of(engine.host),
        inputs_sha256=planfile.inputs_digest(inputs),
    )
    same.must_match(engine, planned.locks, inputs, tmp_path)
    other_data = {work: replace(each, sha256="3" * 64) for work, each in inputs.items()}
    with pytest.raises(ResultsError, match="a model or its data changed"):
        same.must_match(engine, planned.locks, other_data, tmp_path)
    elsewhere = replace(same, machine="another CPU with 64 cores")
    with pytest.raises(ResultsError, match=r"the machine \(it was another CPU with 64 cores"):
        elsewhere.must_match(engine, planned.locks, inputs, tmp_path)
    seeds = tuple(replace(trial, seed=seed) for trial in planned.plan.trials for seed in (1, 2))
    of_accuracies = replace(elsewhere, plan=replace(planned.plan, peak=False, trials=seeds))
    of_accuracies.must_match(engine, planned.locks, inputs, tmp_path)
