"""Which engine runs the workers: the one that the user named, or the best that is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ByteSize, TypeAdapter, ValidationError

from suite import manifest
from suite.engines.base import Engine, FrameworkUnavailable, Say
from suite.engines.containers import DockerEngine
from suite.engines.gpus import parse
from suite.engines.spec import Settings
from suite.engines.venv import VenvEngine
from suite.errors import EngineError, UsageError, unknown
from suite.owners import IfBusy

Name = Literal["auto", "docker", "venv"]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The command line's choice of an engine and of what it gives a worker."""

    engine: Name = "auto"
    gpus: str = "0"
    memory: str | None = None
    keep: bool = False
    pythons: tuple[str, ...] = ()  # FRAMEWORK=PATH, as given

    @property
    def device(self) -> str:
        """What the workers run on: the first of the GPUs they get, or the CPU."""
        return "cuda:0" if parse(self.gpus) else "cpu"

    def interpreters(self) -> dict[str, Path]:
        """Raise UsageError where there is none, or it is of no framework that there is."""
        found = {}
        for text in self.pythons:
            framework, _, path = text.partition("=")
            if framework not in manifest.names("framework"):
                raise unknown("framework", framework, manifest.names("framework"))
            if not Path(path).is_file():
                raise UsageError(
                    f"--python {text!r}: there is no file {path!r}",
                    hint=f"--python {framework}=/path/to/python",
                )
            found[framework] = Path(path).absolute()
        return found

    def settings(self) -> Settings:
        """Raise UsageError where a word cannot be meant."""
        return Settings(gpus=parse(self.gpus), memory_bytes=_bytes(self.memory), keep=self.keep)


@contextmanager
def engine(
    wanted: Wanted,
    frameworks: Iterable[str],
    owner: str,
    say: Say,
    *,
    if_busy: IfBusy = "wait",
) -> Iterator[Engine]:
    """The engine, entered; says which it is and why.

    Raise EngineError where it cannot be had, BusyError where others use it.
    """
    with ExitStack() as stack:
        entered = _entered(wanted, frameworks, owner, say, stack)
        if isinstance(entered, DockerEngine):
            entered.wait_for_others(if_busy, say)
        yield entered


def _entered(
    wanted: Wanted, frameworks: Iterable[str], owner: str, say: Say, stack: ExitStack
) -> Engine:
    settings, pythons = wanted.settings(), wanted.interpreters()
    if pythons and wanted.engine == "docker":
        raise UsageError("--python is for processes, not for containers", hint="--engine venv")
    if wanted.engine == "venv" or pythons:
        if settings.memory_bytes:
            raise UsageError("the venv engine limits no memory", hint="--engine docker")
        say("engine: venv, each worker a process on this machine")
        return VenvEngine(gpus=settings.gpus, pythons=pythons)
    docker = DockerEngine(owner, settings)
    try:
        stack.enter_context(docker)
        reason = _lacking(docker, frameworks) if wanted.engine == "auto" else None
    except EngineError as error:
        if wanted.engine == "docker" or settings.gpus or settings.memory_bytes:
            raise
        reason = str(error)
    if reason is None:
        info = docker.daemon.info
        say(f"engine: docker {info.get('ServerVersion')} on {info.get('Name')}")
        return docker
    stack.close()
    say(f"engine: venv, each worker a process on this machine, for {reason}")
    return VenvEngine()


def _lacking(docker: DockerEngine, frameworks: Iterable[str]) -> str | None:
    """Why not all these frameworks have an image or can get one; None where they have or can."""
    for name in frameworks:
        try:
            recipe = docker.images.recipe(manifest.framework(name), docker.kind)
        except FrameworkUnavailable:
            continue  # its runs are skipped, whatever the engine
        if docker.images.current(recipe) is None:
            obstacle = docker.images.can_build()
            return f"{recipe.manifest.title} has no image, and {obstacle}" if obstacle else None
    return None


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < 2**26:
        raise UsageError(
            f"--memory {text!r} is no size that a worker can live with", hint="--memory 8GiB"
        )
    return size
