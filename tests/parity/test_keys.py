"""What certificates depend on."""

from typing import get_args

from suite.manifests.losses import Loss
from suite.models import MODELS
from suite.parity import keys
from suite.paths import digest
from suite.runner.planning import RunOptions, plan_of


def test_each_loss_has_certificates_of_its_own() -> None:
    options = RunOptions(models=("db_mlp",), frameworks=("pytorch",))
    found = {}
    for trial in plan_of("zoo", options, device="cpu").trials:
        of = keys.of_trial(trial, MODELS["db_mlp"](), 10)
        of["optimizer"] = None
        found[trial.workload.loss] = digest([f"{name}={of[name]}" for name in sorted(of)])
    assert set(found) == set(get_args(Loss))
    assert len(set(found.values())) == 3
