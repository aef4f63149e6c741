"""On a rented machine: whether it is what was offered, and can run what will be measured."""

from __future__ import annotations

from collections.abc import Iterator

from suite.engines import cuda
from suite.errors import EngineError, UsageError
from suite.manifests import catalog
from suite.paths import LOCKS
from suite.results import rental
from suite.results.rental import VARIABLE, Rental
from suite.worker import host


def check() -> Iterator[str]:
    """Lines that describe the machine; EngineError where nothing should be measured on it."""
    values = rental.of_variable()
    if values is None:
        raise UsageError(f"{VARIABLE} names no offer", hint="the task of dlsuite cloud plan has it")
    rented = Rental.model_validate(values)
    facts = host.describe(gpus=rented.accelerator is not None)
    gpus = facts["gpus"]
    yield f"{rented.machine_type} at {rented.place}: {facts['cpu']}, {facts['logical_cpus']} CPUs"
    yield from (f"GPU {gpu['name']}, driver {gpu['driver_version']}" for gpu in gpus)
    yield from (f"warning: {each}" for each in rental.differences(rented, facts))
    if len(gpus) < rented.accelerators:
        reason = facts["gpus_problem"] or f"nvidia-smi lists {len(gpus)}"
        raise EngineError(
            f"the offer has {rented.accelerators} GPUs: {reason}", hint="another provider"
        )
    with_lock = [
        each
        for each in catalog.frameworks().values()
        if cuda.version(LOCKS / each.name / "cuda.txt") is not None
    ]
    obstacles = list(filter(None, (cuda.obstacle(each, gpus) for each in with_lock)))
    yield from (f"warning: {each}" for each in obstacles)
    if len(obstacles) == len(with_lock):
        raise EngineError(obstacles[0], hint="another provider, or an image with a new driver")
