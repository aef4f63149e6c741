"""Options that several commands share."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from suite.datasets.own_images import ColorMode
from suite.datasets.tables import Missing
from suite.errors import UsageError
from suite.manifests.devices import ReferenceChoice
from suite.manifests.losses import Loss
from suite.manifests.workloads import Precision


class Format(StrEnum):
    """Forms of a report."""

    table = "table"
    json = "json"


class ReportFormat(StrEnum):
    """Forms of the report of a run."""

    table = "table"
    json = "json"
    markdown = "markdown"
    csv = "csv"
    parquet = "parquet"


class By(StrEnum):
    """What the rows of several runs are grouped by."""

    machine = "machine"


class RowFormat(StrEnum):
    """Forms of rows of values."""

    table = "table"
    csv = "csv"
    json = "json"


class ParityFormat(StrEnum):
    """Forms of a parity table."""

    table = "table"
    markdown = "markdown"


class Engine(StrEnum):
    """Engines, and the automatic choice."""

    auto = "auto"
    docker = "docker"
    venv = "venv"
    slurm = "slurm"


class IfBusy(StrEnum):
    """What to do while another dlsuite measures."""

    wait = "wait"
    refuse = "refuse"


Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--framework",
        "-f",
        help="Only this framework, or FRAMEWORK:VARIANT (pytorch:compiled); repeatable.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Only the workloads of this model, or your own: net.model.json, or layers in net.py;"
        " repeatable.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Instead of the suite's: a data set (dlsuite list), table.csv, data.npz, or a folder.",
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="Start from these weights: net.safetensors of an import; of one model.",
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="COLUMN", help="Of a table: the target; repeatable."),
]
LossChoice = Annotated[
    Loss | None,
    typer.Option("--loss", help="Of your data; default: the one that the targets are for."),
]
Labels = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Of --data X.npy: y.npy.")
]
Split = Annotated[
    float,
    typer.Option(
        "--split", min=0.01, max=0.9, help="Of your data: the share held out for the test."
    ),
]
MissingValues = Annotated[
    Missing,
    typer.Option("--missing", help="Of a table: refuse, mean, or drop the rows."),
]
Resize = Annotated[
    int | None,
    typer.Option("--resize", min=1, help="Of images: the shorter side is scaled to it."),
]
Crop = Annotated[
    int | None,
    typer.Option("--crop", min=1, help="Of images: the central square that is taken."),
]
ColorModeChoice = Annotated[
    ColorMode | None,
    typer.Option("--color-mode", help="Of images; default: grayscale where all of them are."),
]
Scenarios = Annotated[
    list[str] | None,
    typer.Option("--scenario", help="Only this scenario of inference; repeatable."),
]
Tracks = Annotated[
    list[str] | None,
    typer.Option("--track", help="This track (dlsuite list) instead of the suite's; repeatable."),
]
PrecisionChoice = Annotated[
    Precision | None,
    typer.Option("--precision", help="float32 or bf16_mixed; default: the suite's."),
]
Reference = Annotated[
    ReferenceChoice,
    typer.Option(
        "--reference",
        help="Where the float64 reference is computed: cpu, device (the GPUs), or the faster one.",
    ),
]
SyncBatchNorm = Annotated[
    bool,
    typer.Option("--sync-batch-norm", help="On several devices: batch norms use the whole batch."),
]
Results = Annotated[Path, typer.Option("--results", help="The folder of all runs.")]
RunName = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or its id in --results.")
]
EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine", envvar="DLSUITE_ENGINE", help="auto: docker where it is available, else venv."
    ),
]
GpuChoice = Annotated[
    str, typer.Option("--gpus", help="Number of GPUs (0: the CPU); all; or ids: 0,2 or device=0.")
]
TpuCount = Annotated[
    int,
    typer.Option("--tpus", min=0, help="Number of TPU chips, for JAX; not run on any yet."),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory", help="Memory limit of a container (8GiB); default: 90 % of all."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the containers for inspection.")]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        envvar="DLSUITE_PYTHON",
        metavar="FRAMEWORK=PATH",
        help="A Python that has this framework already (venv engine); repeatable.",
    ),
]
Busy = Annotated[
    IfBusy,
    typer.Option("--if-busy", help="What to do while another dlsuite measures on this machine."),
]
DeviceSets = Annotated[
    list[str] | None,
    typer.Option(
        "--devices",
        help="Train on N devices together, one process on each: cpu:2, cuda:4; repeatable.",
    ),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", help="Number of nodes; each has the devices of --devices.")
]
Sbatch = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="OPTION",
        help="Engine slurm: an option of sbatch (--sbatch=--partition=gpu); repeatable.",
    ),
]
ImagesFolder = Annotated[
    Path | None,
    typer.Option(
        "--images",
        metavar="FOLDER",
        help="Engine slurm: run workers in the images of this folder (dlsuite images export).",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="ADDRESSES",
        help="Docker engines, one for each node: ssh://user@a,ssh://user@b.",
    ),
]
Sign = Annotated[
    bool,
    typer.Option("--sign", help="Sign the run with an SSH key, for dlsuite verify --signer."),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="Of --sign; default: git's user.signingkey, ~/.ssh/id_ed25519.",
    ),
]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Default: the suite's.")]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", help="Whole epochs of the first run of each trial; 0: none."),
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", help="Share of the suite's epochs; below one epoch, a part of the data: 0.01."
    ),
]
RepeatCount = Annotated[int | None, typer.Option("--repeats", help="Runs of each trial.")]
Interleave = Annotated[
    bool, typer.Option("--interleave", help="Run a workload's trials at once, block by block.")
]
NoInterleave = Annotated[
    bool, typer.Option("--no-interleave", help="One run after the other, whatever the suite has.")
]
ProofSteps = Annotated[
    int | None,
    typer.Option("--proof-steps", help="Training steps to compare; default: the suite's."),
]
VerifyRuns = Annotated[
    bool, typer.Option("--verify-runs", help="Prove the last steps of every run.")
]
FullDurations = Annotated[
    bool,
    typer.Option(
        "--full-durations",
        help="Inference: 600 s and 24,576 queries in each run, as MLPerf; takes days.",
    ),
]
FreshPeak = Annotated[
    bool,
    typer.Option("--fresh-peak", help="Measure the hardware peak again; it is kept for a day."),
]
MaxTime = Annotated[
    str | None,
    typer.Option("--max-time", help="Leave out the least important trials: 1h, 90m, 3600s."),
]
Device = Annotated[str, typer.Option("--device", help="cpu or cuda.")]


def absolute_python(python: str) -> str:
    """FRAMEWORK=PATH with an absolute path."""
    framework, equals, path = python.partition("=")
    return f"{framework}={Path(path).absolute()}" if equals and path else python


def share_of(text: str, option: str) -> float:
    """The share in `10%`; UsageError where it is not between 0 and 100 %."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", text.strip())
    if not match or not 0 < float(match[1]) < 100:
        raise UsageError(f"{option} {text!r} is not a percentage", hint=f"{option} 3%")
    return float(match[1]) / 100
