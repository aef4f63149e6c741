"""The engine that runs each worker in a container of its framework's image."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from suite import owners, trial_file
from suite.engines import spec
from suite.engines.base import EngineLost, OnLine, Outcome, Prepared, Say
from suite.engines.docker import Container, Daemon, Image
from suite.engines.probe import Probe
from suite.engines.spec import OWNER, TRIAL, Settings
from suite.engines.volumes import UID, Volumes, archive, fetch, send
from suite.engines.watch import Watch, persist
from suite.errors import BusyError, EngineError
from suite.formats.prepared import DESCRIPTION
from suite.images import Images, Kind, Recipe
from suite.manifest import FrameworkManifest
from suite.owners import IfBusy
from suite.paths import LOCKS, WORKER, sha256, tree_sha256

COPIED_BYTES = 8 * 2**30  # the largest dataset that is copied into a volume


class DockerEngine:
    name: Final = "docker"

    def __init__(
        self,
        owner: str,
        settings: Settings | None = None,
        *,
        worker: Path = WORKER,
        locks: Path = LOCKS,
        named: bool = True,
    ) -> None:
        self.settings = settings or Settings()
        self.worker_sha256 = tree_sha256(worker)
        self._owner = owner
        self._worker = worker
        self._locks = locks
        self._named = named  # whether images that are built take the name for people
        self._running: set[Container] = set()
        self._stopped = False
        self.prepared_images: set[str] = set()
        self._image_id: str | None = None  # any of ours that is there, to look at the machine

    def __enter__(self) -> Self:
        """Raise EngineError where no engine answers, or it has not the GPUs asked for."""
        self.daemon = Daemon()
        labels = {OWNER: self._owner}
        self._volumes = Volumes(self.daemon, self._owner, labels)
        self._probe = Probe(self.daemon, self._owner, labels)
        self.images = Images(self.daemon, locks=self._locks, worker=self._worker, named=self._named)
        if self.settings.gpus:
            self._probe.need_gpus(self._gpus)
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
            known = {**self._probe.machine(self._image_id, self._gpus), "os": known["os"]}
        engine = {"name": info.get("Name"), "version": info.get("ServerVersion")}
        return {**known, "engine": engine, "limits": spec.limits(self.settings, known)}

    def wait_for_others(self, if_busy: IfBusy, say: Say) -> None:
        """See that no other trial runs on this engine, whoever started it from wherever.

        Raise BusyError where its orchestrator is dead, or where the user does not want to wait.
        """
        waiting = False
        while (other := self._other_trial()) is not None:
            if owners.life(other.labels[OWNER]) == "dead":
                raise BusyError(
                    f"{other.name}, of a dlsuite that ended, still runs on this engine",
                    hint="dlsuite resume finishes its run, dlsuite clean removes it",
                )
            if if_busy == "refuse":
                raise BusyError(f"{other.name} runs on this engine", hint=owners.BUSY_HINT)
            if not waiting:
                say(f"{other.name} runs on this engine; waiting for it to end")
            waiting = True
            time.sleep(owners.POLL_S)

    def _other_trial(self) -> Container | None:
        for container in self.daemon.containers({"dlsuite": "trial"}):
            state = container.state()
            running = state is not None and state.status == "running"
            if running and container.labels[OWNER] != self._owner:
                return container
        return None

    def prepare(self, manifest: FrameworkManifest, say: Say) -> Prepared:
        recipe = self.images.recipe(manifest, self.kind)
        image = self.images.ready(recipe, say)
        self._image_id = image.image_id
        self.prepared_images.add(image.image_id)
        return Prepared(
            framework=manifest.name, lock_sha256=sha256(recipe.lock), image_id=image.image_id
        )

    def stop(self) -> None:
        self.images.stop()
        self._stopped = True
        for container in list(self._running):
            with suppress(EngineLost):
                container.kill()

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

        removed = False

        def collect() -> None:
            nonlocal removed
            found = fetch(container, "/trial/results", folder)
            removed = not found and container.state() is None
            if removed:
                self._volumes.collect(volume, "results", folder, image_id)

        def remove() -> None:
            container.remove()
            self.daemon.remove_volume(volume)

        with self._removing(remove), log.open("wb") as stderr, self._counted(container):
            watch = Watch(self.daemon, container, deadline_s, on_line, stderr)
            outcome = watch.until_over()
            went_away = persist(self.daemon, collect)
            if outcome.exit_code and outcome.end == "exited" and (removed or went_away):
                outcome = replace(outcome, end="removed" if removed else "engine stopped")
        taken_s = time.monotonic() - begun
        return replace(
            outcome,
            memory_limit_bytes=self.host["limits"]["memory_bytes"],
            engine_s=taken_s - watch.worker_s if watch.worker_s is not None else None,
        )

    @contextmanager
    def _counted(self, container: Container) -> Iterator[None]:
        """Among those that `stop` ends."""
        self._running.add(container)
        try:
            if self._stopped:
                raise EngineError("stopped", hint="dlsuite resume")
            yield
        finally:
            self._running.discard(container)

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
        volumes, folders = self._data(data, str(prepared.image_id))
        container = self.daemon.create(
            str(prepared.image_id),
            name=f"dlsuite-shell-{prepared.framework}-{self._owner}",
            labels={"dlsuite": "shell", OWNER: self._owner},
            entrypoint=command,
            command=[],
            tty=tty,
            stdin_open=True,
            volumes=volumes,
            folders=folders,
            **self._options(),
        )
        try:
            if folders:
                _need_same_data(container, data)
            yield container
        finally:
            container.remove()

    def check(self, recipe: Recipe, image: Image) -> str | None:
        """What is wrong with an image, None where nothing is."""
        return self._probe.image(recipe, image, self.worker_sha256, **self._options())

    def _options(self) -> dict[str, Any]:
        return {**spec.options(self.host["limits"]), **self._gpus}

    @property
    def _gpus(self) -> dict[str, Any]:
        return spec.gpu_options(self.settings, self.daemon.info)

    def _container(self, prepared: Prepared, folder: Path, name: str) -> tuple[Container, str]:
        """The container of a trial, created or adopted, and the name of its volume."""
        unique = f"dlsuite-{name}"
        container = self._left_behind(name)
        if container is None:
            self.daemon.remove_volume(unique)
            container = self._create(prepared, folder, name, unique)
        return container, unique

    def _data(self, folder: Path, image_id: str) -> tuple[dict[str, Any], dict[str, Path]]:
        """The volumes and the folders through which a container sees a dataset as /data.

        It is copied into a volume, wherever the engine is; a large one is mounted from where it
        lies, which must be the engine's machine.
        """
        size_bytes = sum(path.stat().st_size for path in folder.iterdir())
        if size_bytes > COPIED_BYTES:
            return {}, {"/data": folder}
        return {self._volumes.data(folder, image_id): {"bind": "/data", "mode": "ro"}}, {}

    def _left_behind(self, name: str) -> Container | None:
        """The container of this trial that a killed orchestrator started, running or over."""
        for container in self.daemon.containers({TRIAL: name}):
            state = container.state()
            if state and state.started:
                return container
            container.remove()
        return None

    def _create(self, prepared: Prepared, folder: Path, name: str, unique: str) -> Container:
        trial = trial_file.read(folder)
        paths = {key: Path(value) for key, value in trial["paths"].items()}
        image_id = str(prepared.image_id)
        volumes, folders = self._data(paths["data"], image_id)
        given = {f"{key}.npy": paths[key] for key in ("weights", "order")}
        trial["paths"] = {"data": "/data", "results": "/trial/results"}
        own: dict[str, Path] = {}  # files that go with the trial's own volume
        if "state" in paths:
            own = {f"state/{path.name}": path for path in paths["state"].glob("*.npy")}
            own |= {f"inputs/{name}": path for name, path in given.items()}
            trial["paths"]["state"], place = "/trial/state", "/trial/inputs"
        else:
            volumes[self._volumes.inputs(given, image_id)] = {"bind": "/inputs", "mode": "ro"}
            place = "/inputs"
        trial["paths"] |= {"weights": f"{place}/weights.npy", "order": f"{place}/order.npy"}
        if "images" in paths:
            trial["paths"]["images"] = "/images"
            folders["/images"] = paths["images"]
        if "turns" in paths:
            trial["paths"]["turns"] = "/turns"
            files = {path.name: path for path in sorted(paths["turns"].iterdir())}
            volumes[self._volumes.inputs(files, image_id)] = {"bind": "/turns", "mode": "ro"}
        labels = {"dlsuite": "trial", TRIAL: name, OWNER: self._owner}
        self.daemon.make_volume(unique, labels)
        container = self.daemon.create(
            image_id,
            name=unique,
            labels=labels,
            volumes={**volumes, unique: {"bind": "/trial", "mode": "rw"}},
            folders=folders,
            environment=trial["environment"],
            **self._options(),
        )
        if "/data" in folders:
            _need_same_data(container, paths["data"])
        text = json.dumps(trial, indent=1).encode()
        container.put("/trial", archive({trial_file.NAME: text, "results/": b""}, uid=UID))
        if own:
            send(container, "/trial", own)
        return container


def _need_same_data(container: Container, data: Path) -> None:
    """EngineError where what the engine mounted as `data` is another dataset than ours."""
    with tempfile.TemporaryDirectory() as place:
        there = fetch(container, f"/data/{DESCRIPTION}", Path(place))
        found = (Path(place) / DESCRIPTION).read_bytes() if there else None
    if found != (data / DESCRIPTION).read_bytes():
        container.remove()
        raise EngineError(
            f"{data} is not the same on the engine's machine, which is another",
            hint="have the same folder at the same place there, or run dlsuite there",
        )


@contextmanager
def faulty_containers(worker: Path) -> Iterator[DockerEngine]:
    """An engine whose images hold another worker than ours; they go when it ends."""
    owner = owners.new_id()
    with owners.owning(owner), DockerEngine(owner, worker=worker, named=False) as engine:
        try:
            yield engine
        finally:
            for image_id in engine.prepared_images:
                engine.daemon.remove_image(image_id)


def remove_all(daemon: Daemon, labels: dict[str, str]) -> int:
    """Remove the containers and volumes with these labels; return how many."""
    containers, volumes = daemon.containers(labels), daemon.volumes(labels)
    for container in containers:
        container.remove()
    for volume in volumes:
        daemon.remove_volume(volume)
    return len(containers) + len(volumes)
