"""The options that several commands of the command line share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    table = "table"
    json = "json"


class ParityFormat(StrEnum):
    table = "table"
    markdown = "markdown"


class Engine(StrEnum):
    auto = "auto"
    docker = "docker"
    venv = "venv"


class IfBusy(StrEnum):
    wait = "wait"
    refuse = "refuse"


Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--framework",
        "-f",
        help="Only this framework, or FRAMEWORK:VARIANT (pytorch:compiled); may be repeated.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Only the workloads of this model; may be repeated."),
]
Tracks = Annotated[
    list[str] | None,
    typer.Option(help="In this track (dlsuite list), not the suite's; may be repeated."),
]
Results = Annotated[Path, typer.Option("--results", help="The folder that holds all runs.")]
RunName = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or its id under --results.")
]
EngineName = Annotated[
    Engine,
    typer.Option("--engine", envvar="DLSUITE_ENGINE", help="auto: docker where it can, else venv."),
]
GpuChoice = Annotated[
    str, typer.Option("--gpus", help="GPUs a container gets: 0, a number, all, or ids (0,2).")
]
MemoryLimit = Annotated[
    str | None, typer.Option("--memory", help="A container's limit (8GiB); default: 90 %.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the containers, to look into them.")]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        envvar="DLSUITE_PYTHON",
        metavar="FRAMEWORK=PATH",
        help="A Python that has this framework already (venv engine); may be repeated.",
    ),
]
Busy = Annotated[
    IfBusy, typer.Option(help="What to do while another dlsuite measures on this machine.")
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
