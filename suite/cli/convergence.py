"""The command `convergence`: whether accuracies are equivalent over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suite.cli import run
from suite.cli.options import (
    Busy,
    Engine,
    EngineName,
    Frameworks,
    GpuChoice,
    IfBusy,
    Keep,
    MemoryLimit,
    Models,
    Pythons,
    Results,
    engine_options,
)
from suite.errors import UsageError
from suite.manifests.workloads import Precision
from suite.runner.planning import RunOptions, plan_of
from suite.runner.timelimit import TimeLimit

SUITE = "convergence"


def convergence(
    framework: Frameworks = None,
    model: Models = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: 5.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Whole epochs, instead of the suite's.")
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Only this one; default: both.")
    ] = None,
    results: Results = Path("results"),
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    keep: Keep = False,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Train models with several seeds, and test whether the accuracies are equivalent (hours).

    Precisions are compared in each framework, frameworks in float32. dlsuite resume finishes an
    interrupted run, dlsuite report shows its table.

    Example: dlsuite convergence --model lenet --framework pytorch --framework jax --seeds 3
    """
    if epochs is not None and epochs < 1:
        raise UsageError(f"--epochs is {epochs}; the minimum is 1", hint="--epochs 1")
    options = RunOptions(
        frameworks=tuple(framework or ()),
        models=tuple(model or ()),
        precision=precision,
        epochs=epochs,
        seeds=seeds,
    )
    resources = engine_options(engine, gpus, python, memory, keep=keep)
    plan = plan_of(SUITE, options, device=resources.device)
    run.start(plan, resources, TimeLimit.of(None), results=results, if_busy=if_busy)
