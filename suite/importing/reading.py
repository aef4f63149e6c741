"""A model of the user as an architecture.

The user's code and files are read in the environment of a framework, never in this process.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import DlsuiteError, EngineError, UsageError
from suite.importing.graph import (
    Graph,
    Node,
    NotSeriesParallel,
    with_global_pools,
    with_paddings,
)
from suite.importing.recurrent import with_last_states, with_parts
from suite.models.architecture import Architecture
from suite.worker.programs import ask

READERS = Path(__file__).with_name("readers")
# Of the layers' logits in float64 to those of the file, which are in float64, or in float32. The
# first is for its own weights, the second for changed ones, relative to differences of logits. In
# float64, TensorFlow has the constant of GELU in float32.
TOLERANCES = {"pytorch": (1e-9, 1e-9), "onnx": (1e-5, 1e-3), "keras": (1e-7, 1e-6)}
TIMEOUT_S = 1800.0  # of the largest models
SAMPLES, SEED = 32, 1  # of the comparison with the file
SHOWN = 5  # refused operations in a message; of the others the operators alone
CHANGED_SAMPLES = 8  # of that with noise in the weights


class ImportRefused(DlsuiteError):
    """A model with operations that no layer is, or another form than series and branches."""

    exit_code = 16


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the file's own runtime computed for random inputs."""

    weights: dict[str, NDArray[np.float64]]  # parameters and statistics by their canonical names
    inputs: NDArray[np.float32 | np.int32]  # (samples, *input_shape); int32 are tokens
    logits: NDArray[np.float64]  # (samples, *positions, classes)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A model of a file, and its results for random inputs."""

    architecture: Architecture
    own: Results  # with the weights of the file
    changed: Results  # with noise in all weights
    notes: tuple[str, ...]
    runtime: str  # what computed the logits
    ending: str | None  # softmax, log_softmax or sigmoid: what the file's logits are of the layers'
    tolerance: float  # of the layers' logits with the file's weights
    changed_tolerance: float


def from_pytorch(
    source: str,
    attribute: str,
    shape: tuple[int, ...],
    *,
    name: str,
    python: Path,
    folder: Path,
    readers: Path = READERS,
) -> Imported:
    """Import `attribute` of `source`, a .py file or the name of a module, by PyTorch's Python.

    `folder` is for temporary files, `readers` has the scripts that read. Raise ImportRefused where
    the model has no layers of ours, EngineError where the user's code fails.
    """
    hint = "it must be a class or function without arguments; --input has one sample's shape"
    request = {"source": source, "name": attribute, "input": shape}
    what = f"{source}:{attribute}"
    return _read("pytorch", what, request, name, python, folder, hint, readers)


def from_onnx(
    source: Path, shape: tuple[int, ...] | None, *, name: str, python: Path, folder: Path
) -> Imported:
    """Import an ONNX file by ONNX Runtime's Python; `shape` None: that of the file.

    Raise as `from_pytorch`.
    """
    request = {"source": str(source.absolute()), "input": shape}
    hint = "onnx.checker.check_model says more; --input 3x224x224 sets an open shape"
    return _read("onnx", str(source), request, name, python, folder, hint)


def from_keras(
    source: Path, shape: tuple[int, ...] | None, *, name: str, python: Path, folder: Path
) -> Imported:
    """Import a .keras file by the Python of Keras's environment; `shape` None: that of the file.

    Raise as `from_pytorch`.
    """
    hint = "keras.saving.load_model says more; --input 3x224x224 sets an open shape"
    request = {"source": str(source.absolute()), "input": shape}
    return _read("keras", str(source), request, name, python, folder, hint)


def _read(
    kind: str,
    what: str,
    request: dict[str, Any],
    name: str,
    python: Path,
    folder: Path,
    hint: str,
    readers: Path = READERS,
) -> Imported:
    """Run the script of a kind of file, and make layers of its answer."""
    common = {"samples": SAMPLES, "changed": CHANGED_SAMPLES, "seed": SEED, "folder": str(folder)}
    (folder / "request.json").write_text(json.dumps({**request, **common}), encoding="utf-8")
    shutil.copytree(
        readers,
        folder / READERS.name,
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    answer = ask(
        [python, "-m", f"{READERS.name}.in_{kind}", folder / "request.json"],
        timeout_s=TIMEOUT_S,
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    if answer.problem:
        raise EngineError(f"{what} is not imported: {answer.problem}", hint=hint)
    values = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    if refused := values.get("refused"):
        raise ImportRefused(f"{what}: {refused}", hint=values["hint"] or hint)
    _must_be_whole(what, values.get("refusals", []))
    tolerances = TOLERANCES["onnx" if values.get("in_float32") else kind]
    return Imported(
        architecture=_architecture(name, tuple(values["shape"]), values),
        own=_results(folder, "own"),
        changed=_results(folder, "changed"),
        notes=tuple(values["notes"]),
        runtime=values["runtime"],
        ending=values["ending"],
        tolerance=tolerances[0],
        changed_tolerance=tolerances[1],
    )


def _results(folder: Path, name: str) -> Results:
    with np.load(folder / f"{name}_weights.npz") as file:
        weights = {key: file[key] for key in file.files}
    logits = np.load(folder / f"{name}_logits.npy")
    inputs = np.load(folder / "inputs.npy")[: len(logits)]
    return Results(weights=weights, inputs=inputs, logits=logits)


def shape_of(text: str) -> tuple[int, ...]:
    """The shape in `3x224x224`; UsageError where it is none."""
    parts = text.lower().split("x")
    if not all(each.isdecimal() and int(each) for each in parts) or len(parts) > 3:
        raise UsageError(f"--input {text!r} is no shape of a sample", hint="--input 3x224x224")
    return tuple(map(int, parts))


def _must_be_whole(what: str, refusals: list[dict[str, Any]]) -> None:
    if not refusals:
        return
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in refusals:
        kinds.setdefault((each["operator"], each["reason"]), []).append(each)
    lines = [
        f"{operator} at {same[0]['place']}, input {same[0]['input']}: {reason}"
        + (f" ({len(same)} times)" if len(same) > 1 else "")
        for (operator, reason), same in sorted(kinds.items())
    ]
    others = sorted({operator for operator, _ in sorted(kinds)[SHOWN:]})
    shown = "; ".join(lines[:SHOWN]) + (f"; also {', '.join(others)}" if others else "")
    raise ImportRefused(
        f"{what}: {len(refusals)} of its operations cannot be taken: {shown}",
        hint="docs/reference/models.md lists the layers",
    )


def _architecture(name: str, shape: tuple[int, ...], values: dict[str, Any]) -> Architecture:
    nodes = [
        Node(name=each["name"], inputs=tuple(each["inputs"]), layer=each["layer"])
        for each in values["nodes"]
    ]
    try:
        nodes = with_last_states(with_parts(with_paddings(nodes)))
        layers = with_global_pools(Graph(nodes).layers(), shape)
        made = Architecture(name=name, input_shape=shape, classes=values["classes"], layers=layers)
        made.shapes()
    except (NotSeriesParallel, ValueError) as error:
        raise ImportRefused(f"{name}: {error}", hint="docs/how-to/own-model.md#graphs") from None
    return made
