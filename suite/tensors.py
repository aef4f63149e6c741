"""What a worker computes in each step of the proof, brought home: tensors, or sketches of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite import trial_file
from suite.attempt import attempt
from suite.engines.base import Engine, Prepared, Say
from suite.inputs import Inputs
from suite.manifest import Measure
from suite.models.layers import Parameter
from suite.paths import home
from suite.plan import Trial
from suite.trial_file import Mode, Start
from suite.worker.sketch import SIZE, sketch

DEADLINE_S = 3600.0  # of one worker's proof: the largest models take their time in float64

# In mode parity; of the closing proof and of mode replay.
QUANTITIES = ("logits", "inference", "loss", "gradients", "weights", "statistics")
OUTCOME = ("loss", "weights", "statistics")
# "logits" (in training mode), "inference", "loss"; for each parameter "gradients ...",
# "weights ..." and "updates ..." (the change since the initial weights, in which a wrong optimiser
# shows first); for each batch norm "statistics ....mean" and "... .variance".
Tensors = dict[str, NDArray[np.float64]]


class ProofFailed(Exception):
    """No tensors to compare: why."""


@dataclass(frozen=True, kw_only=True)
class Prover:
    """Runs workers on the steps of the proof, in the folder `work`."""

    engine: Engine
    prepared: dict[str, Prepared]
    inputs: Inputs
    steps: int
    work: Path
    say: Say

    def tensors(self, trial: Trial, precision: str, *, role: str) -> list[Tensors]:
        """What the worker of `trial` computes in each step; ProofFailed where it does not."""
        results = self.run(trial, precision, role=role, mode="parity")
        return [
            read(results, f"step{step:02d}", QUANTITIES, self.inputs) for step in range(self.steps)
        ]

    def run(
        self, trial: Trial, precision: str, *, role: str, mode: Mode, start: Start | None = None
    ) -> Path:
        """Run a worker that proves; return the folder of its files, or raise ProofFailed."""
        name = f"{role}-{trial.framework}-{trial.variant}-{trial.track}-{precision}"
        folder = self.work / name
        trial_file.write(
            folder,
            trial,
            self.inputs,
            mode=mode,
            measure=Measure(),
            cpus=self.engine.host["cpus"],
            precision=precision,
            steps=self.steps,
            start=start,
        )
        log = home() / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        done = attempt(
            self.engine,
            self.prepared[trial.framework],
            folder,
            name=f"{self.work.name}-{name}",
            log=log,
            deadline_s=DEADLINE_S,
            on_event=lambda event: None,
        )
        if done.error is not None:
            raise ProofFailed(f"{trial.means}: {done.error.message}")
        return folder / "results"


def read(results: Path, prefix: str, quantities: tuple[str, ...], inputs: Inputs) -> Tensors:
    """The files `<prefix>_<quantity>.npy` of a worker that began with the weights of `inputs`."""
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
    return [min(parameter.size, SIZE) for parameter in parameters]


def initial(inputs: Inputs) -> Tensors:
    """The sketch of each parameter's initial weights."""
    parameters = inputs.architecture.parameters()
    stops = np.cumsum([parameter.size for parameter in parameters])
    parts = np.split(np.load(inputs.weights, mmap_mode="r"), stops[:-1])
    return {each.name: sketch(part) for each, part in zip(parameters, parts, strict=True)}


def _named(quantity: str, flat: NDArray[np.float64], parameters: tuple[Parameter, ...]) -> Tensors:
    stops = np.cumsum(sketch_sizes(parameters), dtype=int)
    expected = (stops[-1] if len(stops) else 0,)
    if flat.shape != expected:
        raise ProofFailed(f"{quantity} have shape {flat.shape}, not {expected}")
    parts = np.split(flat, stops[:-1])
    return {f"{quantity} {each.name}": part for each, part in zip(parameters, parts, strict=False)}
