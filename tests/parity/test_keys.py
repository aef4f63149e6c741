"""What certificates depend on."""

from typing import get_args

from suite.manifests.losses import Loss
from suite.models import MODELS
from suite.parity import keys
from suite.paths import digest
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions


def test_each_loss_has_certificates_of_its_own() -> None:
    options = RunOptions(models=("db_mlp",), frameworks=("pytorch",))
    found = {}
    for trial in plan_of("zoo", options, device="cpu").trials:
        of = keys.of_trial(trial, MODELS["db_mlp"](), 10)
        of["optimizer"] = None
        found[trial.workload.loss] = digest([f"{name}={of[name]}" for name in sorted(of)])
    assert set(found) == set(get_args(Loss))
    assert len(set(found.values())) == 4


def test_an_option_that_is_not_used_changes_no_certificate() -> None:
    earlier = {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9}
    unused = {"clip_norm": None, "schedule": None, "ema_decay": None, "nesterov": False}
    assert keys.optimizer_of({**earlier, **unused}) == keys.optimizer_of(earlier)
    assert keys.optimizer_of({**earlier, "nesterov": True}) != keys.optimizer_of(earlier)
