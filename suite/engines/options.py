"""The command line's choice of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ByteSize, TypeAdapter, ValidationError

from suite.engines.gpus import parse
from suite.engines.settings import Settings
from suite.errors import UsageError, unknown
from suite.manifests.files import names

EngineChoice = Literal["auto", "docker", "venv", "slurm"]
MIN_MEMORY_BYTES = 2**26


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The command line's choice of an engine, and of the resources of a worker."""

    engine: EngineChoice = "auto"
    gpus: str = "0"
    tpus: int = 0
    memory: str | None = None
    keep: bool = False
    pythons: tuple[str, ...] = ()  # each FRAMEWORK=PATH
    nodes: int = 1  # engine slurm: of the job
    sbatch: tuple[str, ...] = ()  # engine slurm: further options of sbatch
    images: str | None = None  # engine slurm: the folder of the images; None: environments
    hosts: tuple[str, ...] = ()  # engine docker: the addresses of several engines, by node

    @property
    def device(self) -> str:
        """The device set of the workers: one of all their GPUs, their GPUs or TPUs, or the CPU.

        UsageError where both are wanted.
        """
        gpus = parse(self.gpus)
        if self.tpus:
            if gpus is not None:
                raise UsageError("--gpus and --tpus exclude each other", hint="omit one of them")
            return f"tpu:{self.tpus}" if self.tpus > 1 else "tpu"
        if gpus is None:
            return "cpu"
        count = len(gpus.ids) or gpus.count or 1
        return f"cuda:{count}" if count > 1 else "cuda"

    @property
    def separate_nodes(self) -> bool:
        """Whether each node is a machine of its own."""
        return self.engine == "slurm" or bool(self.hosts)

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

    def images_folder(self) -> Path | None:
        """The folder of the images in files; UsageError if it is missing or cannot be used."""
        if self.images is None:
            return None
        if self.engine != "slurm" or self.pythons:
            raise UsageError(
                "--images works only with --engine slurm, without --python",
                hint="--engine slurm",
            )
        folder = Path(self.images)
        if not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder}",
                hint=f"where Docker is: dlsuite images export {folder}",
            )
        return folder

    def settings(self) -> Settings:
        """The resources of a worker; UsageError if an option's value is invalid."""
        return Settings(gpus=parse(self.gpus), memory_bytes=_bytes(self.memory), keep=self.keep)


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
