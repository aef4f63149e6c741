"""The Slurm engine: one job holds the nodes of a plan, and each worker is a step of that job.

The environments are those of the venv engine. They, the inputs and the results must be in folders
that all nodes share.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from suite.engines.base import EngineName, Network, Outcome, WorkerRun, signed
from suite.engines.errors import EngineLost
from suite.engines.slurm import cluster
from suite.engines.slurm.cluster import Allocation
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError
from suite.messages import Notify
from suite.paths import WORKER, home
from suite.protocol import trial_file
from suite.worker import host

POLL_S = 0.5
# What Slurm's commands need beside the variables of every worker.
OF_SLURM = ("SLURM_CONF", "USER")


class SlurmEngine(VenvEngine):
    """Runs workers as steps of one job; see engines.base.Engine.

    A step has one process on each node, which starts the ranks of that node.
    """

    name: EngineName = "slurm"

    def __init__(
        self,
        session_id: str,
        allocation: Allocation,
        notify: Notify,
        worker: Path = WORKER,
        *,
        pythons: Mapping[str, Path] | None = None,
    ) -> None:
        super().__init__(worker, pythons=pythons)
        self._allocation = allocation
        self._notify = notify
        self._job_name = f"dlsuite-{session_id}"
        self.job = ""

    def __enter__(self) -> Self:
        """Wait for the nodes; raise EngineError where Slurm refuses the job or ends it.

        A resumed session finds the job that its killed process left, and ends its steps.
        """
        job = cluster.find(self._job_name)
        if job:
            self.job = job.number
            for step in cluster.steps(self.job):
                cluster.cancel(step)
        else:
            log = home() / "logs" / f"{self._job_name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            self.job = cluster.submit(self._job_name, self._allocation, str(log))
        try:
            self._wait()
            self._addresses = cluster.addresses(self.job)
            self.host = self._describe()
        except BaseException:
            cluster.cancel(self.job)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cluster.cancel(self.job)

    def _wait(self) -> None:
        """Return when the job has its nodes."""
        announced = False
        while True:
            job = cluster.find(self._job_name)
            if job is None:
                raise EngineError(
                    f"job {self.job} ended before it had its nodes",
                    hint=f"scontrol show job {self.job}",
                )
            if job.state == "RUNNING":
                return
            if not announced:
                reason = cluster.why_waiting(self.job)
                self._notify(f"job {self.job} waits for {self._allocation.nodes} nodes: {reason}")
                announced = True
            time.sleep(POLL_S)

    def _describe(self) -> dict[str, Any]:
        """The first node, as a step of the job sees it."""
        start = cluster.start(self.job, name="host", nodes=1)
        text = cluster.output_of([*start, sys.executable, str(Path(host.__file__))])
        found: dict[str, Any] = json.loads(text)
        # Where Slurm does not restrict devices, a step sees GPUs that the job did not ask for.
        gpus = found["gpus"][: self._allocation.gpus_per_node]
        return {**found, "gpus": gpus, "separate_nodes": True}

    @contextmanager
    def network(self, name: str, nodes: int) -> Iterator[Network]:
        if nodes > len(self._addresses):
            raise EngineError(
                f"{nodes} nodes are needed, job {self.job} has {len(self._addresses)}",
                hint=f"--nodes {nodes}",
            )
        hosts = self._addresses[:nodes]
        yield Network(name=None, hosts=hosts, separate=True, starts_all=True)

    @contextmanager
    def _process(self, worker: WorkerRun, stderr: int) -> Iterator[subprocess.Popen[str]]:
        try:
            with super()._process(worker, stderr) as process:
                yield process
        finally:
            self._cancel(worker.name)

    def _outcome(self, exit_code: int, *, expired: bool) -> Outcome:
        if exit_code and cluster.find(self._job_name) is None:
            raise EngineLost(f"job {self.job} has ended", hint="dlsuite resume starts another one")
        # srun exits with 128 + N where signal N killed a process of the step.
        return super()._outcome(signed(exit_code), expired=expired)

    def _cancel(self, name: str) -> None:
        """End the steps of a worker that are left after srun has ended."""
        for step, of_step in cluster.steps(self.job).items():
            if of_step == name:
                cluster.cancel(step)

    def _command(self, worker: WorkerRun) -> list[str]:
        trial = trial_file.read(worker.folder)
        start = cluster.start(self.job, name=worker.name, nodes=trial["nodes"])
        module = "suite.worker" if trial["world_size"] == 1 else "suite.worker.launch"
        return [*start, str(worker.prepared.python), "-m", module, str(worker.folder)]

    def _environment(self, folder: Path) -> dict[str, str]:
        environment = super()._environment(folder)
        del environment["CUDA_VISIBLE_DEVICES"]  # which Slurm sets for each step
        of_slurm = {name: os.environ[name] for name in OF_SLURM if name in os.environ}
        return environment | of_slurm
