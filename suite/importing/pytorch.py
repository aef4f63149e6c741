"""A module of PyTorch as an architecture; the module runs in PyTorch's environment, never here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import DlsuiteError, EngineError, UsageError
from suite.importing.graph import Graph, Node, NotSeriesParallel
from suite.models.architecture import Architecture
from suite.worker.programs import ask

SCRIPT = Path(__file__).with_name("in_pytorch.py")
TIMEOUT_S = 1800.0  # of the largest models
SAMPLES, SEED = 32, 1  # of the comparison with the file


class ImportRefused(DlsuiteError):
    """A model with operations that no layer is, or another form than series and branches."""

    exit_code = 16


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A model of a file, with the file's own weights, and its own results for random inputs."""

    architecture: Architecture
    weights: dict[str, NDArray[np.float64]]  # parameters and statistics by their canonical names
    inputs: NDArray[np.float32]  # (samples, *input_shape)
    logits: NDArray[np.float64]  # (samples, classes)
    notes: tuple[str, ...]
    runtime: str


def read(
    source: str, attribute: str, shape: tuple[int, ...], *, name: str, python: Path, folder: Path
) -> Imported:
    """Import `attribute` of `source`, a .py file or the name of a module, by the Python `python`.

    `folder` is for temporary files. Raise ImportRefused where the model has no layers of ours,
    EngineError where the user's code fails.
    """
    request = {
        "source": source,
        "name": attribute,
        "input": shape,
        "samples": SAMPLES,
        "seed": SEED,
        "folder": str(folder),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    answer = ask([python, SCRIPT, folder / "request.json"], timeout_s=TIMEOUT_S)
    if answer.problem:
        raise EngineError(
            f"{source}:{attribute} is not imported: {answer.problem}",
            hint="it must be a class or function without arguments; --input has one sample's shape",
        )
    values = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    _must_be_whole(f"{source}:{attribute}", values["refusals"])
    with np.load(folder / "weights.npz") as file:
        weights = {key: file[key] for key in file.files}
    return Imported(
        architecture=_architecture(name, shape, values),
        weights=weights,
        inputs=np.load(folder / "inputs.npy"),
        logits=np.load(folder / "logits.npy"),
        notes=tuple(values["notes"]),
        runtime=f"PyTorch {values['torch']}, float64",
    )


def shape_of(text: str) -> tuple[int, ...]:
    """The shape in `3x224x224`; UsageError where it is none."""
    parts = text.lower().split("x")
    if not all(each.isdecimal() and int(each) for each in parts) or len(parts) not in (1, 3):
        raise UsageError(f"--input {text!r} is no shape of a sample", hint="--input 3x224x224")
    return tuple(map(int, parts))


def _must_be_whole(what: str, refusals: list[dict[str, Any]]) -> None:
    if not refusals:
        return
    lines = {
        f"{each['operator']} at {each['place']}, input {each['input']}: {each['reason']}"
        for each in refusals
    }
    raise ImportRefused(
        f"{what}: {len(refusals)} operations cannot be taken: {'; '.join(sorted(lines)[:5])}",
        hint="docs/models.md lists the layers",
    )


def _architecture(name: str, shape: tuple[int, ...], values: dict[str, Any]) -> Architecture:
    nodes = [
        Node(name=each["name"], inputs=tuple(each["inputs"]), layer=each["layer"])
        for each in values["nodes"]
    ]
    try:
        made = Architecture(
            name=name, input_shape=shape, classes=values["classes"], layers=Graph(nodes).layers()
        )
        made.shapes()
    except (NotSeriesParallel, ValueError) as error:
        raise ImportRefused(f"{name}: {error}", hint="docs/models.md#graphs") from None
    return made
