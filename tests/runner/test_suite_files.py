"""Suites in files of the user, with their own models, data and weights beside them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from suite.errors import DataError, ManifestError
from suite.manifests import model_files
from suite.models import MODELS, mlp
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions

SUITE = """\
name: mine
title: my table
seed: 1
repeats: {at_least: 1, at_most: 1}
deadline_s: 60
tracks: [equal]
frameworks: [pytorch, jax]
workloads:
  - model: ./net.model.json
    weights: net.safetensors
    dataset: {path: data/prices.csv, target: price}
    batch_size: 8
    optimizer: {name: sgd, learning_rate: 0.01}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "data").mkdir(parents=True)
    rows = "".join(f"{n},{n % 3},{n / 7}\n" for n in range(40))
    (folder / "data/prices.csv").write_text("area,rooms,price\n" + rows)
    net = mlp.fitted(2, 1)
    model_files.write(folder / "net.model.json", net, None, None)
    named = {each.name: np.ones(each.shape, np.float32) for each in net.parameters()}
    save_file(named, folder / "net.safetensors")
    (folder / "mine.yaml").write_text(SUITE)
    known = dict(MODELS)
    yield folder
    MODELS.clear()
    MODELS.update(known)


def test_files_are_found_beside_the_suite_and_prepared(here: Path) -> None:
    seen: list[str] = []
    options = RunOptions(frameworks=("jax",))
    plan = plan_of(str(here / "mine.yaml"), options, device="cpu", notify=seen.append)
    (trial,) = plan.trials
    assert trial.workload.model == "mlp_2_1" and trial.workload.dataset.startswith("prices_")
    assert trial.workload.loss == "mean_squared_error" and trial.workload.weights_sha256
    assert trial.framework == "jax" and "-mean_squared_error-" in trial.trial_id
    assert any("1 numbers as targets" in text for text in seen)


def test_a_model_of_the_user_has_the_workload_that_a_suite_has_for_others(here: Path) -> None:
    model = str(here / "net.model.json")
    options = RunOptions(models=(model,), frameworks=("jax",), loss="binary_cross_entropy")
    workloads = {each.workload for each in plan_of("zoo", options, device="cpu").trials}
    (found,) = workloads
    assert (found.model, found.dataset, found.batch_size) == ("mlp_2_1", "synthetic", 8)
    assert found.loss == "binary_cross_entropy"


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        ("target: price", "targte: price", ManifestError, "mine.yaml: dataset: targte"),
        ("prices.csv", "none.csv", DataError, "none.csv: no such file"),
        ("./net.model", "./no.model", ManifestError, "no.model.json"),
        ("net.safetensors", "no.safetensors", ManifestError, "no.safetensors"),
        ("batch_size: 8", "batch_sise: 8", ManifestError, "mine.yaml:12: unknown key"),
    ],
)
def test_what_is_wrong_is_named(
    here: Path, old: str, new: str, error: type[Exception], reason: str
) -> None:
    path = here / "mine.yaml"
    path.write_text(SUITE.replace(old, new))
    with pytest.raises(error, match=reason):
        plan_of(str(path), RunOptions(), device="cpu")
