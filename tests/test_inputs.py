import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite import inputs
from suite.formats import synthetic
from suite.inputs import Mode
from suite.manifest import Measure
from suite.plan import Plan


@pytest.mark.parametrize(("mode", "rate"), [("train", 0.1), ("parity", 0.001)])
def test_the_proof_has_a_rate_of_its_own_where_the_workload_gives_one(
    mode: Mode, rate: float, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    planned = quick("pytorch").trials[0]
    optimizer = planned.workload.optimizer.model_copy(update={"learning_rate": 0.1})
    changes = {"optimizer": optimizer, "proof_learning_rate": 0.001}
    trial = replace(planned, workload=planned.workload.model_copy(update=changes))
    data, folder = tmp_path / "data", tmp_path / "trial"
    dataset = synthetic.fitted(trial.workload)
    dataset = dataset.model_copy(update={"samples": {"train": 20, "test": 10}})
    synthetic.write(dataset, data, seed=7)
    given = inputs.make(trial.workload, dataset, data=data, seed=3, place=tmp_path / "inputs")
    inputs.write_trial(folder, trial, given, mode=mode, measure=Measure(), cpus=[0])
    written = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert written["optimizer"] == {"name": "sgd", "learning_rate": rate}
