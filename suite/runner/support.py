"""Which trials a framework can run."""

from __future__ import annotations

from functools import cache

from suite.manifests import catalog
from suite.models import MODELS
from suite.protocol.plan import Trial


def unsupported_reason(trial: Trial) -> str | None:
    """Why the framework cannot run the trial; None where it can."""
    workload = trial.workload
    return catalog.framework(trial.framework).unsupported_reason(
        variant=trial.variant,
        devices=trial.devices,
        layers=_kinds(workload.model),
        workload=workload,
    )


@cache
def _kinds(model: str) -> set[str]:
    """The kinds of layers of a model."""
    return {layer.kind for layer in MODELS[model]().leaves()}
