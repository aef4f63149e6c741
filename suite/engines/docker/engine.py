"""The Docker engine: each worker runs in a container of its framework's image."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from suite.datasets.formats.prepared import DESCRIPTION
from suite.engines import cuda, sessions
from suite.engines.base import LOOPBACK, Network, OnLine, Outcome, Place, Prepared, WorkerRun
from suite.engines.docker import spec
from suite.engines.docker.client import Daemon, Image
from suite.engines.docker.container import Container
from suite.engines.docker.images import Images
from suite.engines.docker.probe import Probe
from suite.engines.docker.spec import SESSION, TRIAL
from suite.engines.docker.volumes import UID, Files, Volumes, archive, fetch, send
from suite.engines.docker.watch import Watch, persist
from suite.engines.errors import EngineLost, FrameworkUnavailable
from suite.engines.recipe import Kind, Recipe
from suite.engines.sessions import IfBusy
from suite.engines.settings import Settings
from suite.errors import BusyError, EngineError
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.paths import LOCKS, WORKER, sha256, tree_sha256
from suite.protocol import trial_file

FILES = ("weights", "statistics", "order")  # of the inputs, each a .npy file
OWN_NAME = "worker"  # of a container without a network
COPIED_BYTES = 8 * 2**30  # the largest dataset that is copied into a volume


class DockerEngine:
    """Runs workers in containers; see engines.base.Engine."""

    name: Final = "docker"

    def __init__(
        self,
        session_id: str,
        settings: Settings | None = None,
        *,
        address: str | None = None,
        worker: Path = WORKER,
        locks: Path = LOCKS,
        tagged: bool = True,
    ) -> None:
        """`address`: of the engine, else the usual one; `tagged`: new images get the users' tag."""
        self.settings = settings or Settings()
        self.worker_sha256 = tree_sha256(worker)
        self.address = address
        self._session_id = session_id
        self.worker = worker
        self._locks = locks
        self._tagged = tagged
        self._running: set[Container] = set()
        self._stopped = False
        self.prepared_images: set[str] = set()
        self._gpus: dict[str, Any] = {}  # the options that give a container its GPUs
        self._gpus_seen: list[dict[str, Any]] = []  # by a container
        self._image_id: str | None = None  # any prepared image, for probing the machine

    def __enter__(self) -> Self:
        """Raise EngineError if no engine answers, or it does not have the requested GPUs."""
        self.daemon = Daemon(self.address)
        labels = {SESSION: self._session_id}
        self._volumes = Volumes(self.daemon, self._session_id, labels)
        self._probe = Probe(self.daemon, self._session_id, labels)
        self.images = Images(
            self.daemon, locks=self._locks, worker=self.worker, tagged=self._tagged
        )
        remove_all(self.daemon, labels)  # left by a killed process of this session
        if self.settings.gpus:
            options = spec.gpu_options(self.settings, self.daemon.info)
            self._gpus, self._gpus_seen = self._probe.require_gpus(options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not (self.settings.keep or isinstance(error, EngineLost)):
            remove_all(self.daemon, {SESSION: self._session_id})
        self.daemon.close()

    @property
    def kind(self) -> Kind:
        """The kind of images that it uses."""
        return "cuda" if self.settings.gpus else "cpu"

    @cached_property
    def host(self) -> dict[str, Any]:
        """The machine as a container sees it, with the engine and its limits.

        Before an image is prepared, it is what the engine reports: no processor, every logical CPU.
        """
        info = self.daemon.info
        facts = {
            "os": info.get("OperatingSystem"),
            "kernel": info.get("KernelVersion"),
            "machine": info.get("Architecture"),
            "cpu": None,
            "gpus": self._gpus_seen,
            "cpus": list(range(info["NCPU"])),
            "logical_cpus": info["NCPU"],
            "memory_bytes": info["MemTotal"],
        }
        in_force: dict[str, int | None] = {**self._limits}
        if self._image_id:
            options = spec.limit_options(self._limits)
            seen = self._probe.machine(self._image_id, self._gpus, options)
            del seen["gpus_problem"]
            in_force = spec.in_force(self._limits, seen)
            facts = {**seen, "os": facts["os"], "memory_bytes": facts["memory_bytes"]}
        engine = {"name": info.get("Name"), "version": info.get("ServerVersion")}
        return {**facts, "engine": engine, "limits": {**in_force, "cpus": facts["cpus"]}}

    @property
    def _limits(self) -> dict[str, int]:
        """The limits that each worker's container is created with."""
        return spec.limits(self.settings, self.daemon.info["MemTotal"])

    def wait_for_others(self, if_busy: IfBusy, notify: Notify) -> None:
        """Wait until no other session's trial runs on this engine.

        Raise BusyError if that session is stale, or if `if_busy` is "refuse".
        """
        waiting = False
        while (other := self._other_trial()) is not None:
            if sessions.state(other.labels.get(SESSION, "")) == "stale":
                raise BusyError(
                    f"{other.name}, left by a dlsuite that ended, still runs on this engine",
                    hint="dlsuite clean removes it; dlsuite resume does its run again",
                )
            if if_busy == "refuse":
                raise BusyError(f"{other.name} runs on this engine", hint=sessions.BUSY_HINT)
            if not waiting:
                notify(f"{other.name} runs on this engine; waiting for it to end")
            waiting = True
            time.sleep(sessions.POLL_S)

    def _other_trial(self) -> Container | None:
        for container in self.daemon.containers({"dlsuite": "trial"}):
            state = container.state()
            running = state is not None and state.status == "running"
            if running and container.labels.get(SESSION) != self._session_id:
                return container
        return None

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        recipe = self.images.recipe(manifest, self.kind)
        cuda.require(manifest, self._gpus_seen, notify)
        image_id = self.images.ready(recipe, notify).image_id
        self.has_prepared(image_id)
        return Prepared(
            framework=manifest.name,
            lock_sha256=sha256(recipe.lock),
            lock=recipe.lock.read_text(encoding="utf-8"),
            image_id=image_id,
        )

    def has_prepared(self, image_id: str) -> None:
        """Note that workers run in this image, which the engine has."""
        if self._image_id is None:
            self.__dict__.pop("host", None)  # from now on a container can inspect the machine
        self._image_id = image_id
        self.prepared_images.add(image_id)

    def is_prepared(self, manifest: FrameworkManifest) -> bool:
        try:
            return self.images.current(self.images.recipe(manifest, self.kind)) is not None
        except FrameworkUnavailable:
            return True

    def stop(self) -> None:
        self.images.stop()
        self._stopped = True
        for container in list(self._running):
            _kill(container)

    def run(self, worker: WorkerRun, on_line: OnLine) -> Outcome:
        started_s = time.monotonic()
        # Run ids of two result folders may be equal.
        volume = f"dlsuite-{worker.name}-{self._session_id}"
        container, files = self._create(worker, volume)
        removed = False

        def collect() -> None:
            nonlocal removed
            found = fetch(container, "/trial/results", worker.folder)
            removed = not found and container.state() is None
            if removed:
                image_id = str(worker.prepared.image_id)
                self._volumes.collect(volume, "results", worker.folder, image_id)

        with (
            self._removed_afterwards(container, volume),
            worker.log.open("wb") as stderr,
            self._stoppable(container),
        ):
            if worker.place:
                worker.place.stop.on_call(partial(_kill, container))
            _fill(container, worker, files)
            watch = Watch(self.daemon, container, worker.deadline_s, on_line, stderr)
            outcome = watch.until_ended()
            lost = persist(self.daemon, collect)
            if outcome.exit_code and outcome.end == "exited" and (removed or lost):
                outcome = replace(outcome, end="removed" if removed else "engine stopped")
        total_s = time.monotonic() - started_s
        return replace(
            outcome,
            memory_limit_bytes=self._limits["memory_bytes"],
            engine_s=total_s - watch.worker_s if watch.worker_s is not None else None,
        )

    @contextmanager
    def network(self, name: str, nodes: int) -> Iterator[Network]:
        if nodes == 1:
            yield Network(name=None, hosts=(LOOPBACK,))
            return
        network = f"dlsuite-{name}-{self._session_id}"
        self.daemon.make_network(network, {"dlsuite": "network", SESSION: self._session_id})
        try:
            yield Network(name=network, hosts=tuple(f"node{node}" for node in range(nodes)))
        finally:
            self.daemon.remove_network(network)

    @contextmanager
    def _stoppable(self, container: Container) -> Iterator[None]:
        """Let `stop` kill the container during the block."""
        self._running.add(container)
        try:
            if self._stopped:
                raise EngineError("stopped", hint="dlsuite resume")
            yield
        finally:
            self._running.discard(container)

    @contextmanager
    def _removed_afterwards(self, container: Container, volume: str) -> Iterator[None]:
        """Remove the container and its volume, unless the engine is lost or `keep` is set."""

        def remove() -> None:
            if not self.settings.keep:
                container.remove()
                self.daemon.remove_volume(volume)

        try:
            yield
        except EngineLost:
            raise
        except BaseException:
            remove()
            raise
        persist(self.daemon, remove)

    @contextmanager
    def shell(
        self, prepared: Prepared, data: Path, command: list[str], *, tty: bool
    ) -> Iterator[Container]:
        """A container like a trial's, not started, for interactive use."""
        volumes, folders = self._data(data, str(prepared.image_id))
        container = self.daemon.create(
            str(prepared.image_id),
            name=f"dlsuite-shell-{prepared.framework}-{self._session_id}",
            labels={"dlsuite": "shell", SESSION: self._session_id},
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
                _require_same_data(container, data)
            yield container
        finally:
            container.remove()

    def check(self, recipe: Recipe, image: Image) -> str | None:
        """The defect of an image, if it has one."""
        return self._probe.image(recipe, image, self.worker_sha256, **self._options())

    def _options(self) -> dict[str, Any]:
        return {**spec.options(self._limits, self.host["cpus"]), **self._gpus}

    def _create(self, worker: WorkerRun, volume: str) -> tuple[Container, _TrialFiles]:
        """The container of a trial, not started, and its files, of which `_fill` sends the rest."""
        trial = trial_file.read(worker.folder)
        image_id = str(worker.prepared.image_id)
        paths = {key: Path(value) for key, value in trial["paths"].items()}
        files = self._trial_files(paths, image_id)
        labels = {"dlsuite": "trial", TRIAL: worker.name, SESSION: self._session_id}
        self.daemon.make_volume(volume, labels)
        container = self.daemon.create(
            image_id,
            name=volume,
            labels=labels,
            volumes={**files.volumes, volume: {"bind": "/trial", "mode": "rw"}},
            folders=files.folders,
            environment=trial["environment"],
            **self._options() | _network_options(worker.place),
        )
        return container, files

    def _trial_files(self, paths: dict[str, Path], image_id: str) -> _TrialFiles:
        """The files of a trial as its container sees them; `paths` are those on this machine."""
        volumes, folders = self._data(paths["data"], image_id)
        inside = {"data": "/data", "results": "/trial/results"}
        inputs = {f"{key}.npy": paths[key] for key in FILES}
        in_trial: dict[str, Path] = {}
        if "state" in paths:  # a state and its inputs belong to one trial
            inside["state"], input_folder = "/trial/state", "/trial/inputs"
            in_trial = {f"state/{path.name}": path for path in paths["state"].glob("*.npy")}
            in_trial |= {f"inputs/{name}": path for name, path in inputs.items()}
        else:
            input_folder = "/inputs"
            volumes |= self._input_volume(inputs, "/inputs", image_id)
        inside |= {key: f"{input_folder}/{key}.npy" for key in FILES}
        if "images" in paths:
            inside["images"] = "/images"
            require_readable(paths["images"])
            folders["/images"] = paths["images"]
        if "interleaving" in paths:
            inside["interleaving"] = "/interleaving"
            files = {path.name: path for path in sorted(paths["interleaving"].iterdir())}
            volumes |= self._input_volume(files, "/interleaving", image_id)
        return _TrialFiles(paths=inside, volumes=volumes, folders=folders, in_trial=in_trial)

    def _data(self, folder: Path, image_id: str) -> tuple[dict[str, Any], dict[str, Path]]:
        """The volumes and folders that make a dataset visible as /data.

        A dataset is copied into a volume, so the engine may be remote. A large one is mounted from
        its folder, which must be on the engine's machine.
        """
        size_bytes = sum(path.stat().st_size for path in folder.iterdir())
        if size_bytes > COPIED_BYTES:
            require_readable(folder)
            return {}, {"/data": folder}
        return {self._volumes.data(folder, image_id): {"bind": "/data", "mode": "ro"}}, {}

    def _input_volume(self, files: Files, target: str, image_id: str) -> dict[str, Any]:
        """A read-only mount of a volume with these files."""
        return {self._volumes.inputs(files, image_id): {"bind": target, "mode": "ro"}}


def require_readable(folder: Path) -> None:
    """Raise EngineError where the user of the containers cannot read a folder that is mounted.

    Of the files in each folder below it, the first one is examined.
    """
    for inner, _, files in os.walk(folder):
        _require_mode(Path(inner), stat.S_IROTH | stat.S_IXOTH)
        for name in files[:1]:
            _require_mode(Path(inner) / name, stat.S_IROTH)


def _require_mode(path: Path, bits: int) -> None:
    found = path.stat()
    own = found.st_uid == UID and found.st_mode & stat.S_IRUSR
    if not own and found.st_mode & bits != bits:
        raise EngineError(
            f"{path} is mounted into the containers, whose user {UID} cannot read it",
            hint=f"chmod -R o+rX {path}",
        )


def _network_options(place: Place | None) -> dict[str, Any]:
    """The options of a container in the network of its trial."""
    if place is None:  # gloo looks for the address of its own host name
        return {"hostname": OWN_NAME, "extra_hosts": {OWN_NAME: LOOPBACK}}
    if place.network.separate:  # a private network does not reach other machines
        return {"network_mode": "host"}
    return {"network_mode": place.network.name, "alias": place.network.hosts[place.node]}


def _fill(container: Container, worker: WorkerRun, files: _TrialFiles) -> None:
    """Write trial.json, with the paths inside the container, and the files of the trial itself."""
    trial = trial_file.read(worker.folder)
    if "/data" in files.folders:
        _require_same_data(container, Path(trial["paths"]["data"]))
    text = json.dumps({**trial, "paths": files.paths}, indent=1).encode()
    container.put("/trial", archive({trial_file.NAME: text, "results/": b""}, uid=UID))
    if files.in_trial:
        send(container, "/trial", files.in_trial)


def _kill(container: Container) -> None:
    with suppress(EngineError):
        container.kill()


@dataclass(frozen=True, kw_only=True)
class _TrialFiles:
    """The files of a trial in its container."""

    paths: dict[str, str]  # as `paths` in trial.json, inside the container
    volumes: dict[str, Any]  # the mount of each volume
    folders: dict[str, Path]  # mounted folders of the engine's machine, by path in the container
    in_trial: dict[str, Path]  # files for the trial's own volume, by name


def _require_same_data(container: Container, data: Path) -> None:
    """Remove the container and raise EngineError if its dataset is not the one in `data`."""
    with tempfile.TemporaryDirectory() as folder:
        exists = fetch(container, f"/data/{DESCRIPTION}", Path(folder))
        description = (Path(folder) / DESCRIPTION).read_bytes() if exists else None
    if description != (data / DESCRIPTION).read_bytes():
        container.remove()
        raise EngineError(
            f"{data} differs on the engine's machine",
            hint="copy the folder to the same path there, or run dlsuite there",
        )


@contextmanager
def engine_with_worker(worker: Path) -> Iterator[DockerEngine]:
    """An engine whose images contain the worker in a folder; they are removed at the end."""
    session_id = sessions.new_id()
    with (
        sessions.session(session_id),
        DockerEngine(session_id, worker=worker, tagged=False) as engine,
    ):
        try:
            yield engine
        finally:
            for image_id in engine.prepared_images:
                engine.daemon.remove_image(image_id)


def remove_all(daemon: Daemon, labels: dict[str, str]) -> int:
    """Remove the containers, volumes and networks with these labels; return their number."""
    containers, volumes = daemon.containers(labels), daemon.volumes(labels)
    for container in containers:
        container.remove()
    for volume in volumes:
        daemon.remove_volume(volume)
    networks = daemon.networks(labels)
    for network in networks:
        daemon.remove_network(network)
    return len(containers) + len(volumes) + len(networks)
