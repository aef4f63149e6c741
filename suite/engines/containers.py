"""The engine that runs each worker in a container of its framework's image."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from suite.engines.base import EngineLost, OnLine, Outcome, Prepared, Say
from suite.engines.docker import Container, Daemon, Image, State, archive
from suite.engines.gpus import Gpus, request
from suite.engines.volumes import UID, Volumes, fetch
from suite.engines.watch import Watch, persist
from suite.errors import EngineError
from suite.images import IMAGE_WORKER, OURS, Images, Kind, Recipe, base_image
from suite.manifest import FrameworkManifest
from suite.paths import LOCKS, WORKER, sha256, tree_sha256
from suite.worker.frameworks import MODULES

MEMORY_SHARE = 0.9  # of the machine's, where the user sets no limit: the rest keeps it alive
PIDS = 4096
SHM_BYTES = 2**30
LOG_BYTES = 2**26  # of what the engine keeps of a worker's output
LOOK_S = 60.0
CHECK_S = 300.0  # TensorFlow takes a while to import from a cold disk
OWNER, TRIAL = "dlsuite.owner", "dlsuite.trial"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user chooses of a container."""

    gpus: Gpus | None = None
    memory_bytes: int | None = None
    keep: bool = False  # containers and volumes, to look into them


class DockerEngine:
    name: Final = "docker"

    def __init__(
        self,
        owner: str,
        settings: Settings | None = None,
        *,
        worker: Path = WORKER,
        locks: Path = LOCKS,
    ) -> None:
        self.settings = settings or Settings()
        self.worker_sha256 = tree_sha256(worker)
        self._owner = owner
        self._worker = worker
        self._locks = locks
        self._image_id: str | None = None  # any of ours that is there, to look at the machine

    def __enter__(self) -> Self:
        """Raise EngineError where no engine answers, or it has not the GPUs asked for."""
        self.daemon = Daemon()
        self._volumes = Volumes(self.daemon, self._owner, {OWNER: self._owner})
        self.images = Images(self.daemon, locks=self._locks, worker=self._worker)
        if self.settings.gpus:
            self._need_gpus()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not (self.settings.keep or isinstance(error, EngineLost)):
            remove_all(self.daemon, {OWNER: self._owner})
        self.daemon.close()

    @property
    def kind(self) -> Kind:
        return "cuda" if self.settings.gpus else "cpu"

    @cached_property
    def host(self) -> dict[str, Any]:
        """The machine as a container sees it, with the engine and the limits it sets."""
        info = self.daemon.info
        known = {
            "os": info.get("OperatingSystem"),
            "kernel": info.get("KernelVersion"),
            "machine": info.get("Architecture"),
            "cpu": None,
            "gpus": [],
            "cpus": list(range(info["NCPU"])),
            "logical_cpus": info["NCPU"],
            "memory_bytes": info["MemTotal"],
        }
        if self._image_id:
            known = {**self._look(self._image_id), "os": known["os"]}
        engine = {"name": info.get("Name"), "version": info.get("ServerVersion")}
        return {**known, "engine": engine, "limits": self._limits(known)}

    def prepare(self, manifest: FrameworkManifest, say: Say) -> Prepared:
        recipe = self.images.recipe(manifest, self.kind)
        image = self.images.ready(recipe, say)
        self._image_id = image.image_id
        return Prepared(
            framework=manifest.name, lock_sha256=sha256(recipe.lock), image_id=image.image_id
        )

    def stop(self) -> None:
        self.images.stop()

    def run(
        self,
        prepared: Prepared,
        folder: Path,
        *,
        name: str,
        log: Path,
        deadline_s: float,
        on_line: OnLine,
    ) -> Outcome:
        begun = time.monotonic()
        container, volume = self._container(prepared, folder, name)
        image_id = str(prepared.image_id)

        def collect() -> None:
            if not fetch(container, "/trial/results", folder) and outcome.end == "removed":
                self._volumes.collect(volume, "results", folder, image_id)

        def remove() -> None:
            container.remove()
            self.daemon.remove_volume(volume)

        with self._removing(remove), log.open("wb") as stderr:
            watch = Watch(self.daemon, container, deadline_s, on_line, stderr)
            outcome = watch.until_over()
            if persist(self.daemon, collect) and outcome.exit_code and outcome.end == "exited":
                outcome = replace(outcome, end="engine stopped")
        taken_s = time.monotonic() - begun
        return replace(
            outcome,
            memory_limit_bytes=self.host["limits"]["memory_bytes"],
            engine_s=taken_s - watch.worker_s if watch.worker_s is not None else None,
        )

    @contextmanager
    def _removing(self, remove: Callable[[], None]) -> Iterator[None]:
        """Remove at the end; not where the engine is lost: a resume adopts what is left."""
        try:
            yield
        except EngineLost:
            raise
        except BaseException:
            if not self.settings.keep:
                remove()
            raise
        if not self.settings.keep:
            persist(self.daemon, remove)

    @contextmanager
    def shell(
        self, prepared: Prepared, data: Path, command: list[str], *, tty: bool
    ) -> Iterator[Container]:
        """A container like a trial's, not started, for a person instead of a worker."""
        volume = self._volumes.data(data, str(prepared.image_id))
        container = self.daemon.create(
            str(prepared.image_id),
            name=f"dlsuite-shell-{prepared.framework}-{self._owner}",
            labels={"dlsuite": "shell", OWNER: self._owner},
            entrypoint=command,
            command=[],
            tty=tty,
            stdin_open=True,
            volumes={volume: {"bind": "/data", "mode": "ro"}},
            **self.options(),
        )
        try:
            yield container
        finally:
            container.remove()

    def check(self, recipe: Recipe, image: Image) -> str | None:
        """What is wrong with an image: another worker, or a framework that does not import."""
        module = f"suite.worker{MODULES[recipe.framework]}"
        code = f"import importlib; print(importlib.import_module({module!r}).version())"
        container = self.daemon.create(
            image.image_id,
            name=f"dlsuite-check-{self._owner}",
            labels={"dlsuite": "helper", OWNER: self._owner},
            entrypoint=["python", "-c", code],
            command=[],
            **self.options(),
        )
        try:
            with tempfile.TemporaryDirectory() as place:
                fetch(container, IMAGE_WORKER, Path(place))
                if tree_sha256(Path(place) / "worker") != self.worker_sha256:
                    return "holds another worker than its label says"
            container.start()
            state = _ended(container, CHECK_S)
            if state is None or state.exit_code:
                words = container.output()[1].decode(errors="replace").strip().splitlines()
                return f"{recipe.manifest.title} does not import: {''.join(words[-1:])}"
        finally:
            container.remove()
        return None

    def options(self) -> dict[str, Any]:
        """How every container of ours is created: what it may do and what it may use."""
        limits = self.host["limits"]
        return {
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "read_only": True,
            # A fresh /tmp for each: no compiler finds there what another run has cached.
            "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
            "user": f"{UID}:{UID}",
            "init": True,
            "pids_limit": limits["pids"],
            "mem_limit": limits["memory_bytes"],
            "memswap_limit": limits["memory_bytes"],
            "shm_size": limits["shm_bytes"],
            "cpuset_cpus": ",".join(map(str, limits["cpus"])),
            "log_config": {"type": "json-file", "config": {"max-size": str(LOG_BYTES)}},
            **self._gpu_options(),
        }

    def _limits(self, known: dict[str, Any]) -> dict[str, Any]:
        return {
            "memory_bytes": self.settings.memory_bytes or int(known["memory_bytes"] * MEMORY_SHARE),
            "pids": PIDS,
            "shm_bytes": SHM_BYTES,
            "cpus": known["cpus"],
        }

    def _gpu_options(self) -> dict[str, Any]:
        if not self.settings.gpus:
            return {}
        return {"device_requests": [request(self.settings.gpus, self.daemon.info)]}

    def _need_gpus(self) -> None:
        """See that the engine gives what was asked for, on whatever image is there."""
        image = next(iter(self.daemon.images(OURS)), None) or self.daemon.image(base_image())
        if image is None:
            self.daemon.pull(base_image())
            image = self.daemon.image(base_image())
            assert image is not None
        try:
            found = self._look(image.image_id)["gpus"]
        except EngineLost:
            raise
        except EngineError as error:
            raise EngineError(
                f"GPUs were asked for and the engine has none to give: {error}",
                hint="install NVIDIA's container toolkit beside the engine, or leave out --gpus",
            ) from None
        if not found:
            raise EngineError(
                "GPUs were asked for, and a container sees none",
                hint="nvidia-smi on the engine's machine shows whether the driver works",
            )

    def _look(self, image_id: str) -> dict[str, Any]:
        """What worker/host.py says in a container of an image, with the GPUs asked for."""
        source = (WORKER / "host.py").read_text(encoding="utf-8")
        container = self.daemon.create(
            image_id,
            name=f"dlsuite-look-{self._owner}",
            labels={"dlsuite": "helper", OWNER: self._owner},
            entrypoint=["python3", "-c", source],
            command=[],
            network_mode="none",
            **self._gpu_options(),
        )
        try:
            container.start()
            _ended(container, LOOK_S)
            facts: dict[str, Any] = json.loads(container.output()[0])
        finally:
            container.remove()
        return facts

    def _container(self, prepared: Prepared, folder: Path, name: str) -> tuple[Container, str]:
        """The container of a trial, created or adopted, and the name of its volume."""
        unique = f"dlsuite-{name}"
        container = self._left_behind(name)
        if container is None:
            self.daemon.remove_volume(unique)
            container = self._create(prepared, folder, name, unique)
        return container, unique

    def _left_behind(self, name: str) -> Container | None:
        """The container of this trial that a killed orchestrator started, running or over."""
        for container in self.daemon.containers({TRIAL: name}):
            state = container.state()
            if state and state.started:
                return container
            container.remove()
        return None

    def _create(self, prepared: Prepared, folder: Path, name: str, unique: str) -> Container:
        trial = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
        paths = {key: Path(value) for key, value in trial["paths"].items()}
        image_id = str(prepared.image_id)
        data = self._volumes.data(paths["data"], image_id)
        given = {f"{key}.npy": paths[key] for key in ("weights", "order")}
        inputs = self._volumes.inputs(given, image_id)
        trial["paths"] = {
            "data": "/data",
            "weights": "/inputs/weights.npy",
            "order": "/inputs/order.npy",
            "results": "/trial/results",
        }
        labels = {"dlsuite": "trial", TRIAL: name, OWNER: self._owner}
        self.daemon.make_volume(unique, labels)
        container = self.daemon.create(
            image_id,
            name=unique,
            labels=labels,
            volumes={
                unique: {"bind": "/trial", "mode": "rw"},
                data: {"bind": "/data", "mode": "ro"},
                inputs: {"bind": "/inputs", "mode": "ro"},
            },
            **self.options(),
        )
        text = json.dumps(trial, indent=1).encode()
        container.put("/trial", archive({"trial.json": text, "results/": b""}, uid=UID))
        return container


def _ended(container: Container, limit_s: float) -> State | None:
    """Its state once it is over; None where it is gone or still runs after the limit."""
    end = time.monotonic() + limit_s
    while (state := container.state()) and not state.over:
        if time.monotonic() >= end:
            return None
        time.sleep(0.02)
    return state


def remove_all(daemon: Daemon, labels: dict[str, str]) -> int:
    """Remove the containers and volumes with these labels; return how many."""
    containers, volumes = daemon.containers(labels), daemon.volumes(labels)
    for container in containers:
        container.remove()
    for volume in volumes:
        daemon.remove_volume(volume)
    return len(containers) + len(volumes)
