"""What a report reads from a run's folder."""

from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.report import run_data
from tests.report.made_run import made_run
from tests.results.test_record import record


def test_trials_are_by_workload_and_then_fastest_first(tmp_path: Path) -> None:
    run = run_data.read(made_run(tmp_path))
    first, one, two = run.by_workload.values()
    assert [run.label(trial) for trial in first[:2]] == [
        "TensorFlow graph",
        "PyTorch channels_last, tuned",
    ]
    assert first[-1].status == "failed"
    assert [trial.record.device for trial in (*one, *two)] == ["cpu:1", "cpu:2"]


def test_the_others_are_compared_with_the_fastest_proven_trial(tmp_path: Path) -> None:
    (pairs,) = run_data.read(made_run(tmp_path)).ratios.values()
    assert {pair.a.record.framework for pair in pairs} == {"tensorflow"}
    assert [pair.difference.verdict for pair in pairs if pair.difference] == ["slower"] * 5


def test_certificates_are_read_from_the_folder_of_the_run(tmp_path: Path) -> None:
    run = run_data.read(made_run(tmp_path))
    found = run.certificates
    assert len(found) == 6 and found["jax-jit-equal"].raised[0] == {"loss": 1e-3}


def test_labels_have_the_seed_where_there_are_several(tmp_path: Path) -> None:
    records = [record(seed=seed, trial_id=f"t{seed}") for seed in (1, 2)]
    run = run_data.of(tmp_path, records)
    assert [run.label(trial) for trial in run.trials] == [
        "PyTorch eager, seed 1",
        "PyTorch eager, seed 2",
    ]


def test_a_run_can_be_reduced_to_some_trials(tmp_path: Path) -> None:
    run = run_data.read(made_run(tmp_path))
    reduced = run.only(run.trials[:2])
    assert len(reduced.trials) == 2 and len(reduced.records) == 8


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"):
        run_data.read(tmp_path)
