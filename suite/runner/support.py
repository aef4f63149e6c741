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
        layers=_needs(workload.model),
        workload=workload,
    )


@cache
def _needs(model: str) -> set[str]:
    """What a framework must have for a model: the kinds of its layers, and some of their fields."""
    return {each for layer in MODELS[model]().layers for each in layer.needs}
