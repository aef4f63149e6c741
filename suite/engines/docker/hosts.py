"""Several Docker engines as one: each runs one node of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from suite.engines.base import LOOPBACK, Network, OnLine, Outcome, Prepared, WorkerRun
from suite.errors import EngineError, UsageError
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify

if TYPE_CHECKING:
    from suite.engines.docker.engine import DockerEngine

SCHEMES = ("ssh", "tcp", "unix")


class HostsEngine:
    """Runs node N of a trial on engine N; see engines.base.Engine.

    A trial of one node, the references and the builds of images run on the first engine. The
    containers of several nodes use the network of their machine.
    """

    name: Final = "docker"

    def __init__(self, engines: Sequence[DockerEngine]) -> None:
        """Raise UsageError where the address of an engine has another form than DOCKER_HOST."""
        self.engines = engines
        self._hosts = tuple(host_of(str(engine.address)) for engine in engines)
        self._first = engines[0]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Raise EngineError if an engine does not answer, or if their machines differ."""
        with ExitStack() as stack:
            for engine in self.engines:
                stack.enter_context(engine)
            _require_alike(self.engines)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    @property
    def host(self) -> dict[str, Any]:
        return {**self._first.host, "separate_nodes": True}

    @property
    def worker(self) -> Path:
        return self._first.worker

    @property
    def worker_sha256(self) -> str:
        return self._first.worker_sha256

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        prepared = self._first.prepare(manifest, notify)
        image_id = str(prepared.image_id)
        for engine in self.engines[1:]:
            if engine.daemon.image(image_id) is None:
                notify(f"{manifest.title}: copying its image to {engine.address}")
                recipe = self._first.images.recipe(manifest, self._first.kind)
                self._first.daemon.copy_image(recipe.exact_tag, engine.daemon)
            engine.has_prepared(image_id)
        return prepared

    def is_prepared(self, manifest: FrameworkManifest) -> bool:
        return self._first.is_prepared(manifest)

    def stop(self) -> None:
        for engine in self.engines:
            engine.stop()

    def run(self, worker: WorkerRun, on_line: OnLine) -> Outcome:
        engine = self.engines[worker.place.node] if worker.place else self._first
        return engine.run(worker, on_line)

    @contextmanager
    def network(self, name: str, nodes: int) -> Iterator[Network]:
        if nodes == 1:
            with self._first.network(name, nodes) as network:
                yield network
            return
        if nodes > len(self.engines):
            raise EngineError(
                f"{nodes} nodes are needed, --hosts names {len(self.engines)}",
                hint=f"--nodes {len(self.engines)}",
            )
        yield Network(name=None, hosts=self._hosts[:nodes], separate=True)


def host_of(address: str) -> str:
    """The name by which other machines reach an engine's machine.

    Raise UsageError where the address has another form than that of DOCKER_HOST.
    """
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES or not (parts.hostname or parts.path):
        raise UsageError(
            f"--hosts: {address!r} is not an engine's address", hint="--hosts ssh://a,ssh://b"
        )
    return parts.hostname or LOOPBACK


def _require_alike(engines: Sequence[DockerEngine]) -> None:
    """Raise an error where two addresses name one engine, or two machines differ."""
    by_identity: dict[tuple[str, ...], DockerEngine] = {}
    for engine in engines:
        # Copies of one machine may have one ID.
        identity = tuple(engine.daemon.info[key] for key in ("ID", "Name", "DockerRootDir"))
        same = by_identity.setdefault(identity, engine)
        if same is not engine:
            raise UsageError(
                f"--hosts: {same.address} and {engine.address} are one engine",
                hint="for two containers of one engine: --nodes 2 without --hosts",
            )
    first, *others = (_machine(engine) for engine in engines)
    for engine, machine in zip(engines[1:], others, strict=True):
        if machine != first:
            raise EngineError(
                f"the machines differ: {engines[0].address} has {first},"
                f" {engine.address} has {machine}",
                hint="use machines of one kind: the slowest rank decides the rate",
            )


def _machine(engine: DockerEngine) -> str:
    info = engine.daemon.info
    return f"{info['NCPU']} CPUs of {info['Architecture']}"
