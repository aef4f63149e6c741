"""Chooses the engine: the one that the user named, or the best available one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from suite.engines.base import Engine
from suite.engines.errors import EngineMisconfigured, FrameworkUnavailable
from suite.engines.options import EngineOptions
from suite.engines.sessions import IfBusy
from suite.engines.venv import orphans
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError, UsageError
from suite.manifests import catalog
from suite.messages import Notify

if TYPE_CHECKING:
    from suite.engines.docker.engine import DockerEngine
    from suite.engines.docker.hosts import HostsEngine
    from suite.engines.slurm.engine import SlurmEngine


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
    images = options.images_folder()
    with ExitStack() as stack:
        if options.hosts:
            yield stack.enter_context(_hosts(options, session_id, notify, if_busy))
        elif options.engine == "slurm":
            yield stack.enter_context(_slurm(options, images, session_id, notify))
        elif options.engine == "venv" or options.pythons or options.tpus:
            yield _venv(options, session_id, notify)
        else:
            yield _docker_or_venv(options, frameworks, session_id, notify, stack, if_busy)


def _venv(options: EngineOptions, session_id: str, notify: Notify) -> Engine:
    settings, pythons = options.settings(), options.interpreters()
    if options.engine == "docker":
        option = "--python" if pythons else "--tpus"
        raise UsageError(f"{option} works only with the venv engine", hint="--engine venv")
    if settings.memory_bytes:
        raise UsageError("the venv engine has no memory limit", hint="--engine docker")
    notify("engine: venv")
    orphans.end(session_id, notify)
    engine = VenvEngine(gpus=settings.gpus, tpus=options.tpus, pythons=pythons)
    _notify_of_gpus(engine, notify)
    return engine


def _notify_of_gpus(engine: VenvEngine, notify: Notify) -> None:
    """Say why nvidia-smi did not report all GPUs, where the chosen ones are there."""
    if problem := engine.host.get("gpus_problem"):
        notify(f"warning: not all GPUs answer: {problem}")


def _slurm(
    options: EngineOptions, images: Path | None, session_id: str, notify: Notify
) -> SlurmEngine:
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
    notify(f"engine: slurm, images in {images}" if images else "engine: slurm")
    return SlurmEngine(
        session_id, allocation, notify, pythons=options.interpreters(), images=images
    )


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
    docker_only = options.engine == "docker" or settings.memory_bytes
    docker = DockerEngine(session_id, settings)
    try:
        stack.enter_context(docker)
        obstacle = None if docker_only else _image_obstacle(docker, frameworks)
    except EngineError as error:
        if docker_only or isinstance(error, EngineMisconfigured):
            raise
        obstacle = str(error)
    if obstacle is None:
        info = docker.daemon.info
        notify(f"engine: docker {info.get('ServerVersion')} on {info.get('Name')}")
        docker.wait_for_others(if_busy, notify)
        return docker
    stack.close()
    try:
        venv = VenvEngine(gpus=settings.gpus)
    except EngineError as error:
        raise EngineError(
            f"Docker unavailable: {obstacle}; without Docker, {error}", hint=error.hint
        ) from None
    notify(f"engine: venv (Docker unavailable: {obstacle})")
    orphans.end(session_id, notify)
    _notify_of_gpus(venv, notify)
    return venv


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
