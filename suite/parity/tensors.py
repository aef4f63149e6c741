"""Collects the tensors that a worker computes in each step of a proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.datasets.inputs import Inputs
from suite.engines.attempt import run_task
from suite.engines.base import Engine, Prepared
from suite.messages import Notify
from suite.models.layers import Parameter
from suite.paths import home
from suite.protocol.plan import Trial
from suite.protocol.schema import Mode
from suite.protocol.trial_file import Start, Task
from suite.worker.sketch import SIZE, sketch

DEADLINE_S = 3600.0  # of one worker: the largest models are slow in float64

QUANTITIES = ("logits", "inference", "loss", "gradients", "weights", "statistics")  # mode parity
OUTCOME = ("loss", "weights", "statistics")  # closing proof and mode replay
# Keys: "logits" (in training mode), "inference", "loss"; for each parameter "gradients NAME",
# "weights NAME" and "updates NAME" (the change since the initial weights: the first quantity that
# shows a wrong optimizer); for each batch norm "statistics NAME.mean" and "... .variance".
Tensors = dict[str, NDArray[np.float64]]


class ProofFailed(Exception):
    """There are no tensors to compare; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Prover:
    """Runs workers that compute the steps of a proof, in the folder `work_dir`."""

    engine: Engine
    prepared: dict[str, Prepared]
    inputs: Inputs
    steps: int
    work_dir: Path
    notify: Notify

    def tensors(self, trial: Trial, precision: str, *, role: str) -> list[Tensors]:
        """The tensors of each step; ProofFailed where the worker fails."""
        results = self.run(trial, precision, role=role, mode="parity")
        return [
            read(results, f"step{step:02d}", QUANTITIES, self.inputs) for step in range(self.steps)
        ]

    def run(
        self, trial: Trial, precision: str, *, role: str, mode: Mode, start: Start | None = None
    ) -> Path:
        """Run a worker; return the folder of its results, or raise ProofFailed."""
        name = f"{role}-{trial.framework}-{trial.variant}-{trial.track}-{precision}"
        folder = self.work_dir / name
        task = Task(
            trial=trial,
            inputs=self.inputs,
            mode=mode,
            precision=precision,
            steps=self.steps,
            start=start,
        )
        attempt = run_task(
            self.engine,
            self.prepared[trial.framework],
            task,
            folder,
            name=f"{self.work_dir.name}-{name}",
            log=home() / "logs" / f"{name}.log",
            deadline_s=DEADLINE_S,
        )
        if attempt.error is not None:
            raise ProofFailed(f"{trial.configuration}: {attempt.error.message}")
        return folder / "results"


def read(results: Path, prefix: str, quantities: tuple[str, ...], inputs: Inputs) -> Tensors:
    """The files `<prefix>_<quantity>.npy` of a worker that started from the weights of `inputs`."""
    parameters, statistics = inputs.architecture.parameters(), inputs.architecture.statistics()
    tensors: Tensors = {}
    for name in quantities:
        path = results / f"{prefix}_{name}.npy"
        try:
            values = np.load(path).astype(np.float64)
        except (OSError, ValueError) as error:
            raise ProofFailed(f"{path.name}: {error}") from None
        if name in ("gradients", "weights"):
            tensors.update(_named(name, values, parameters))
        elif name == "statistics":
            tensors.update(_named(name, values, statistics))
        else:
            tensors[name] = values
    for name, before in initial(inputs).items():
        tensors[f"updates {name}"] = tensors[f"weights {name}"] - before
    return tensors


def sketch_sizes(parameters: tuple[Parameter, ...]) -> list[int]:
    """The number of values in the sketch of each parameter."""
    return [min(parameter.size, SIZE) for parameter in parameters]


def initial(inputs: Inputs) -> Tensors:
    """The sketch of each parameter's initial weights."""
    parameters = inputs.architecture.parameters()
    stops = np.cumsum([parameter.size for parameter in parameters])
    parts = np.split(np.load(inputs.weights, mmap_mode="r"), stops[:-1])
    return {each.name: sketch(part) for each, part in zip(parameters, parts, strict=True)}


def _named(quantity: str, flat: NDArray[np.float64], parameters: tuple[Parameter, ...]) -> Tensors:
    """The sketches of a quantity by name; `flat` has them one after the other."""
    stops = np.cumsum(sketch_sizes(parameters), dtype=int)
    expected = (stops[-1] if len(stops) else 0,)
    if flat.shape != expected:
        raise ProofFailed(f"{quantity} have shape {flat.shape}, not {expected}")
    parts = np.split(flat, stops[:-1])
    return {f"{quantity} {each.name}": part for each, part in zip(parameters, parts, strict=False)}
