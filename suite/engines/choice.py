"""Chooses the engine: the one that the user named, or the best available one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ByteSize, TypeAdapter, ValidationError

from suite.engines.base import Engine
from suite.engines.errors import FrameworkUnavailable
from suite.engines.gpus import parse
from suite.engines.sessions import IfBusy
from suite.engines.settings import Settings
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError, UsageError, unknown
from suite.manifests import catalog
from suite.manifests.files import names
from suite.messages import Notify

if TYPE_CHECKING:
    from suite.engines.docker.engine import DockerEngine
    from suite.engines.docker.hosts import HostsEngine
    from suite.engines.slurm.engine import SlurmEngine

EngineChoice = Literal["auto", "docker", "venv", "slurm"]
MIN_MEMORY_BYTES = 2**26


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The command line's choice of an engine, and of the resources of a worker."""

    engine: EngineChoice = "auto"
    gpus: str = "0"
    memory: str | None = None
    keep: bool = False
    pythons: tuple[str, ...] = ()  # each FRAMEWORK=PATH
    nodes: int = 1  # engine slurm: of the job
    sbatch: tuple[str, ...] = ()  # engine slurm: further options of sbatch
    hosts: tuple[str, ...] = ()  # engine docker: the addresses of several engines, by node

    @property
    def device(self) -> str:
        """The device set of the workers: one of all their GPUs, their GPUs, or the CPU."""
        gpus = parse(self.gpus)
        if gpus is None:
            return "cpu"
        count = len(gpus.ids) or gpus.count or 1
        return f"cuda:{count}" if count > 1 else "cuda"

    def interpreters(self) -> dict[str, Path]:
        """The user's Python of each framework; UsageError if a name or a path is invalid."""
        interpreters = {}
        for text in self.pythons:
            framework, _, path = text.partition("=")
            if framework not in names("framework"):
                raise unknown("framework", framework, names("framework"))
            if not Path(path).is_file():
                raise UsageError(
                    f"--python {text!r}: there is no file {path!r}",
                    hint=f"--python {framework}=/path/to/python",
                )
            interpreters[framework] = Path(path).absolute()
        return interpreters

    def settings(self) -> Settings:
        """The resources of a worker; UsageError if an option's value is invalid."""
        return Settings(gpus=parse(self.gpus), memory_bytes=_bytes(self.memory), keep=self.keep)


@contextmanager
def engine(
    options: EngineOptions,
    frameworks: Iterable[str],
    session_id: str,
    notify: Notify,
    *,
    if_busy: IfBusy = "wait",
) -> Iterator[Engine]:
    """Choose and enter an engine; a message names it, and the reason if it is the second choice.

    Raise EngineError if the engine is unavailable, BusyError if another session uses it.
    """
    with ExitStack() as stack:
        if options.hosts:
            yield stack.enter_context(_hosts(options, session_id, notify, if_busy))
        elif options.engine == "slurm":
            yield stack.enter_context(_slurm(options, session_id, notify))
        elif options.engine == "venv" or options.pythons:
            yield _venv(options, notify)
        else:
            yield _docker_or_venv(options, frameworks, session_id, notify, stack, if_busy)


def _venv(options: EngineOptions, notify: Notify) -> Engine:
    settings, pythons = options.settings(), options.interpreters()
    if options.engine == "docker":
        raise UsageError("--python works only with the venv engine", hint="--engine venv")
    if settings.memory_bytes:
        raise UsageError("the venv engine has no memory limit", hint="--engine docker")
    notify("engine: venv")
    return VenvEngine(gpus=settings.gpus, pythons=pythons)


def _slurm(options: EngineOptions, session_id: str, notify: Notify) -> SlurmEngine:
    from suite.engines.slurm.cluster import Allocation
    from suite.engines.slurm.engine import SlurmEngine

    settings = options.settings()
    if settings.memory_bytes:
        raise UsageError("the memory of a job is an option of sbatch", hint="--sbatch=--mem=8G")
    gpus = settings.gpus
    if gpus and (gpus.ids or gpus.count == -1):
        raise UsageError("a job gets a number of GPUs", hint="--gpus 4")
    allocation = Allocation(
        nodes=options.nodes,
        gpus_per_node=gpus.count or 0 if gpus else 0,
        options=options.sbatch,
    )
    notify("engine: slurm")
    return SlurmEngine(session_id, allocation, notify, pythons=options.interpreters())


@contextmanager
def _hosts(
    options: EngineOptions, session_id: str, notify: Notify, if_busy: IfBusy
) -> Iterator[HostsEngine]:
    from suite.engines.docker.engine import DockerEngine
    from suite.engines.docker.hosts import HostsEngine

    if options.engine not in ("auto", "docker") or options.pythons:
        raise UsageError("--hosts works only with the engine docker", hint="--engine docker")
    settings = options.settings()
    engines = [DockerEngine(session_id, settings, address=each) for each in options.hosts]
    with HostsEngine(engines) as engine:
        for each in engine.engines:
            notify(f"engine: docker {each.daemon.info.get('ServerVersion')} at {each.address}")
            each.wait_for_others(if_busy, notify)
        yield engine


def _docker_or_venv(
    options: EngineOptions,
    frameworks: Iterable[str],
    session_id: str,
    notify: Notify,
    stack: ExitStack,
    if_busy: IfBusy,
) -> Engine:
    # Imported here: the import takes a quarter of the start of a command.
    from suite.engines.docker.engine import DockerEngine

    settings = options.settings()
    docker_only = options.engine == "docker" or settings.gpus or settings.memory_bytes
    docker = DockerEngine(session_id, settings)
    try:
        stack.enter_context(docker)
        obstacle = None if docker_only else _image_obstacle(docker, frameworks)
    except EngineError as error:
        if docker_only:
            raise
        obstacle = str(error)
    if obstacle is None:
        info = docker.daemon.info
        notify(f"engine: docker {info.get('ServerVersion')} on {info.get('Name')}")
        docker.wait_for_others(if_busy, notify)
        return docker
    stack.close()
    notify(f"engine: venv (Docker unavailable: {obstacle})")
    return VenvEngine()


def _image_obstacle(docker: DockerEngine, frameworks: Iterable[str]) -> str | None:
    """Why a framework has no image and none can be built; None if all have one or can get one."""
    for name in frameworks:
        try:
            recipe = docker.images.recipe(catalog.framework(name), docker.kind)
        except FrameworkUnavailable:
            continue  # its runs are skipped on either engine
        if docker.images.current(recipe) is None:
            obstacle = docker.images.build_obstacle()
            return f"{recipe.manifest.title} has no image, and {obstacle}" if obstacle else None
    return None


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < MIN_MEMORY_BYTES:
        raise UsageError(
            f"--memory {text!r} is not a valid size, or too small for a worker",
            hint="--memory 8GiB",
        )
    return size
