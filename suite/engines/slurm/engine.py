"""The Slurm engine: one job holds the nodes of a plan, and each worker is a step of that job.

The environments are those of the venv engine, or images in files. They, the inputs and the results
must be in folders that all nodes share.
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

from suite.engines import cuda
from suite.engines.base import EngineName, Network, Outcome, Prepared, WorkerRun, signed
from suite.engines.errors import EngineLost, FrameworkUnavailable
from suite.engines.recipe import Recipe
from suite.engines.slurm import cluster, containers
from suite.engines.slurm.cluster import Allocation
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.paths import WORKER, home, replacing, sha256
from suite.protocol import trial_file
from suite.worker import host

# What Slurm's commands need beside the variables of every worker.
OF_SLURM = (*cluster.CONFIGURATION, "USER")
# What a container does not get: the compilers of the machine.
NOT_IN_CONTAINERS = ("CC", "CXX", "LD_LIBRARY_PATH")
CONVERSION = "image"  # the name of the step that converts an image
OF_SRUN = ("srun:", "slurmstepd:")  # the beginning of lines that are not the step's


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
        images: Path | None = None,
        poll_s: float = cluster.POLL_S,
    ) -> None:
        """`images`: the folder of the images in which the workers run; None: environments.

        `poll_s`: between two questions to Slurm.
        """
        super().__init__(worker, pythons=pythons)
        self._allocation = allocation
        self._notify = notify
        self._cluster = cluster.Cluster(notify, poll_s)
        self._images = images
        self._job_name = f"dlsuite-{session_id}"
        self.job = ""

    def __enter__(self) -> Self:
        """Wait for the nodes; raise EngineError where Slurm refuses the job or ends it.

        A resumed session finds the job that its killed process left, and ends its steps.
        """
        if self._allocation.cluster:
            cluster.use(self._allocation.cluster)
        # Where Slurm does not answer, nothing is cancelled.
        job = self._cluster.find(self._job_name)
        try:
            if job:
                self.job = job.number
                for step in self._cluster.steps(self.job):
                    self._cluster.cancel(step)
            else:
                log = _log(self._job_name)
                self.job = self._cluster.submit(self._job_name, self._allocation, str(log))
            self._wait()
            self._addresses = self._cluster.addresses(self.job)
            self.host = self._describe()
        except BaseException:
            self._cluster.cancel(f"--name={self._job_name}")
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # By name: an sbatch that was interrupted or without an answer may have submitted another.
        self._cluster.cancel(f"--name={self._job_name}")

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        if self._images is None:
            return super().prepare(manifest, notify)
        recipe = self._recipe(manifest)
        cuda.require(manifest, self.host["gpus"], notify)
        image = containers.image_file(self._images, recipe)
        if image.suffix == containers.ARCHIVE:
            image = self._converted(image, manifest, notify)
        return Prepared(
            framework=manifest.name,
            lock_sha256=sha256(recipe.lock),
            lock=recipe.lock.read_text(encoding="utf-8"),
            image_id=f"sha256:{sha256(image)}",
            image_file=image,
        )

    def is_prepared(self, manifest: FrameworkManifest) -> bool:
        if self._images is None:
            return super().is_prepared(manifest)
        try:
            image = containers.image_file(self._images, self._recipe(manifest))
        except (FrameworkUnavailable, EngineError):
            return True  # `prepare` gives the reason at once
        return image.suffix != containers.ARCHIVE

    def stop(self) -> None:
        super().stop()
        if self._images:
            self._cancel(CONVERSION)

    def _recipe(self, manifest: FrameworkManifest) -> Recipe:
        return Recipe.of(manifest, "cuda" if self.host["gpus"] else "cpu", worker=self.worker)

    def _converted(self, archive: Path, manifest: FrameworkManifest, notify: Notify) -> Path:
        """An archive's image in Apptainer's form, made on a node and kept beside the archive."""
        notify(f"{manifest.title}: converting {archive.name} for Apptainer")
        image = archive.with_suffix(containers.APPTAINER)
        start = cluster.start(self.job, name=CONVERSION, nodes=1)
        log = _log(f"image-{archive.stem}")
        with log.open("w", encoding="utf-8") as file, replacing(image) as part:
            command = [*start, *containers.conversion(archive, part)]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=cluster.environment(),
                check=False,
            )
            if done.returncode:
                lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                own = [line for line in lines if not line.startswith(OF_SRUN)]
                reason = own[-1] if own else f"exit code {done.returncode}"
                raise EngineError(f"{archive} cannot be converted: {reason}", hint=f"see {log}")
        return image

    def _wait(self) -> None:
        """Return when the job has its nodes."""
        announced = ""
        while (job := self._cluster.job(self.job)).state not in cluster.HOLDING:
            if job.state not in cluster.LIVE:
                raise EngineError(
                    f"job {self.job} ended before it had its nodes: {job}",
                    hint=f"scontrol show job {self.job}",
                )
            if str(job) != announced:
                announced = str(job)
                self._notify(f"job {self.job} waits for {self._allocation.nodes} nodes: {job}")
            time.sleep(self._cluster.poll_s)

    def _describe(self) -> dict[str, Any]:
        """The first node, as a step of the job sees it."""
        start = cluster.start(self.job, name="host", nodes=1)
        gpus_asked = ["--gpus"] if self._allocation.gpus_per_node else []
        text = cluster.answer_of([*start, sys.executable, "-m", host.__name__, *gpus_asked])
        found = _description(text)
        problem = found.pop("gpus_problem")
        # Where Slurm does not restrict devices, a step sees GPUs that the job did not ask for.
        asked = self._allocation.gpus_per_node
        gpus = found["gpus"][:asked]
        if len(gpus) < asked:
            raise EngineError(
                f"a step of job {self.job} sees {len(gpus)} of {asked} GPUs"
                + (f" ({problem})" if problem else ""),
                hint="--sbatch=--partition=NAME, of a partition with GPUs; see nvidia-smi there",
            )
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
    def _process(self, worker: WorkerRun, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
        try:
            with super()._process(worker, stderr) as process:
                yield process
        finally:
            self._cancel(worker.name)

    def _outcome(self, exit_code: int, *, expired: bool) -> Outcome:
        if exit_code and (job := self._present()).state not in cluster.HOLDING:
            raise EngineLost(
                f"job {self.job} is no longer running: {job}",
                hint="dlsuite resume starts another one, or goes on in it",
            )
        # srun exits with 128 + N where signal N killed a process of the step.
        return super()._outcome(signed(exit_code), expired=expired)

    def _present(self) -> cluster.Job:
        """The job now; one that Slurm requeued has lost its nodes."""
        try:
            return self._cluster.job(self.job)
        except cluster.NoAnswer as error:
            raise EngineLost(str(error), hint="dlsuite resume goes on in the same job") from None

    def _cancel(self, name: str) -> None:
        """End the steps of a worker that are left after srun has ended."""
        for step, of_step in self._cluster.steps(self.job).items():
            if of_step == name:
                self._cluster.cancel(step)

    def _command(self, worker: WorkerRun) -> list[str]:
        trial = trial_file.read(worker.folder)
        start = cluster.start(self.job, name=worker.name, nodes=trial["nodes"])
        shell = ["sh", "-c", cluster.WITH_TMPDIR, "sh"]
        module = "suite.worker" if trial["world_size"] == 1 else "suite.worker.launch"
        arguments = ["-m", module, str(worker.folder)]
        image = worker.prepared.image_file
        if image is None:
            return [*start, *shell, str(worker.prepared.python), *arguments]
        gpus = bool(self.host["gpus"])
        launch = containers.launch(image, worker.folder, trial["paths"], gpus=gpus)
        container = [*launch.options, *shell, *launch.command]
        return [*start, *container, containers.PYTHON, *arguments]

    def environment(self, folder: Path) -> dict[str, str]:
        environment = super().environment(folder)
        del environment["CUDA_VISIBLE_DEVICES"]  # which Slurm sets for each step
        if self._images:
            for name in NOT_IN_CONTAINERS:
                environment.pop(name, None)
            environment["PYTHONPATH"] = containers.WORKER_PATH
        of_slurm = {name: os.environ[name] for name in OF_SLURM if name in os.environ}
        return environment | of_slurm


def _log(name: str) -> Path:
    """A log in the cache; its folder exists."""
    log = home() / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def _description(text: str) -> dict[str, Any]:
    """The line of worker/host.py among the lines that the site prints; EngineError without it."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "cpus" in found:
            return found
    last = (text.strip().splitlines() or ["nothing"])[-1]
    raise EngineError(
        f"a step does not describe its node, it printed: {last}",
        hint=f"srun {sys.executable} -m {host.__name__}",
    )
