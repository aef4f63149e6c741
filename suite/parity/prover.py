"""Runs the workers that compute the steps of a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.engines.attempt import run_task
from suite.engines.base import Engine, Prepared
from suite.messages import Notify
from suite.parity import workers
from suite.parity.tensors import (
    QUANTITIES,
    ProofFailed,
    Tensors,
    read,
    read_answers,
    read_ranks,
)
from suite.paths import home
from suite.protocol.plan import Trial
from suite.protocol.schema import Mode
from suite.protocol.trial_file import Start, Task
from suite.worker import ranks
from suite.worker.proof import perturbed_weights


@dataclass(frozen=True, kw_only=True)
class Prover:
    """Runs workers that compute the steps of a proof, in the folder `work_dir`."""

    engine: Engine
    prepared: dict[str, Prepared]
    inputs: Inputs
    steps: int
    work_dir: Path
    notify: Notify

    def at_once(self, trial: Trial) -> int:
        """The number of workers that may prove the trial's workload at the same time."""
        return workers.at_once(self.inputs.architecture, trial.workload)

    def tensors(self, trial: Trial, precision: str, *, role: str) -> list[Tensors]:
        """The tensors of each step; of several ranks, as rank 0 has them."""
        return self.of_ranks(trial, precision, role=role)[0]

    def of_ranks(self, trial: Trial, precision: str, *, role: str) -> list[list[Tensors]]:
        """The tensors of each step as each rank has them; ProofFailed where the worker fails.

        Inference has one step, which answers all samples.
        """
        results = self.run(trial, precision, role=role, mode="parity")
        if trial.workload.scenario:
            return [[read_answers(results)]]
        folders = [ranks.folder(results, rank) for rank in range(trial.devices.ranks)]
        steps = [
            read_ranks(folders, f"step{step:02d}", QUANTITIES, self.inputs)
            for step in range(self.steps)
        ]
        return [list(of_rank) for of_rank in zip(*steps, strict=True)]

    def of_weights(
        self, trial: Trial, precision: str, weights: Sequence[Path], *, role: str
    ) -> list[list[Tensors]]:
        """The tensors of each training step from each of these weights, computed by one worker.

        The files of the weights are moved.
        """
        folder = self.work_dir / f"{role}-{precision}-weights"
        folder.mkdir()
        moved = [path.rename(perturbed_weights(folder, draw)) for draw, path in enumerate(weights)]
        start = Start(state=folder, first_step=0, steps=self.steps, draws=len(weights))
        results = self.run(trial, precision, role=role, mode="parity", start=start)
        return [
            [
                read(
                    results,
                    f"draw{draw:02d}_step{step:02d}",
                    QUANTITIES,
                    self.inputs.starting_from(path),
                )
                for step in range(self.steps)
            ]
            for draw, path in enumerate(moved)
        ]

    def run(
        self, trial: Trial, precision: str, *, role: str, mode: Mode, start: Start | None = None
    ) -> Path:
        """Run a worker; return the folder of its results, or raise ProofFailed."""
        name = f"{role}-{trial.trial_id}-{precision}"
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
            deadline_s=trial.proof_deadline_s,
        )
        if attempt.error is not None:
            raise ProofFailed(f"{trial.configuration}: {attempt.error.message}")
        return folder / "results"
