from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines.choice import EngineOptions
from suite.errors import ResultsError
from suite.protocol.plan import Plan
from suite.runner import planfile
from suite.runner.planfile import Planned
from tests.test_records import record


@pytest.fixture
def planned(quick: Callable[..., Plan]) -> Planned:
    return Planned(
        session_id="a1",
        engine_options=EngineOptions(engine="docker", gpus="2", memory="8GiB"),
        worker_sha256="0" * 64,
        locks={"jax": "1" * 64},
        plan=quick("jax", "mxnet", repeats=2),
    )


def test_what_is_read_is_what_was_written(planned: Planned, tmp_path: Path) -> None:
    planfile.write(tmp_path, planned)
    assert planfile.read(tmp_path) == planned


def test_the_runs_without_a_record_are_missing_in_the_plans_order(
    planned: Planned, tmp_path: Path
) -> None:
    assert planfile.missing(tmp_path, []) == []  # a run from before there were plans
    planfile.write(tmp_path, planned)
    first, *others = planned.plan.runs
    done = [record(trial_id=first.trial.trial_id, repeat=first.repeat)]
    assert planfile.missing(tmp_path, done) == [run.name for run in others]


def test_a_plan_that_is_none_or_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no plan to resume"):
        planfile.read(tmp_path)
    (tmp_path / planfile.NAME).write_text("version: 9\n")
    with pytest.raises(ResultsError, match="plan of version 9, this is 5"):
        planfile.read(tmp_path)
    (tmp_path / planfile.NAME).write_text(f"version: {planfile.VERSION}\nowner: x\n")
    with pytest.raises(ResultsError, match="not a plan"):
        planfile.read(tmp_path)
