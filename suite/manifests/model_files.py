"""Models in files of the user: `NAME.model.json`, an architecture that can be read and edited.

The weights, if there are any, lie beside it in `NAME.safetensors`, by their canonical names. A
model may also be a function of a file `NAME.py` that returns an Architecture, as in suite/models/.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from suite.errors import ManifestError
from suite.manifests.strict import Name, Strict, first_problem
from suite.models import MODELS, makes_of, reason_of
from suite.models.architecture import Architecture
from suite.models.from_json import architecture_of
from suite.paths import replacing, write_atomically

SUFFIX = ".model.json"
IMPORT = "of a PyTorch module: dlsuite model import {}:NAME --input 3x224x224"
FORMAT = 1
PYTHON = re.compile(r"(?P<file>.+\.py)(:(?P<function>\w+))?")
Weights = Mapping[str, NDArray[Any]]
FILES: dict[str, Path] = {}  # of registered models, by name


class Origin(Strict):
    """The file that a model was imported from, and how well the layers agree with it."""

    source: str
    sha256: str | None
    runtime: str  # what computed the logits of the file
    samples: int
    # Of the layers' logits, relative to those of the file; None where these depend on no input.
    error: float | None
    changed_error: float | None = None  # the same with noise in all weights
    notes: tuple[str, ...] = ()


class ModelFile(Strict):
    """The content of the file; `layers` has the form of trial.json.

    docs/reference/trial.schema.json is its schema.
    """

    format: int
    name: Name
    input_shape: tuple[int, ...]
    classes: int
    origin: Origin | None = None
    layers: tuple[dict[str, Any], ...]

    @property
    def architecture(self) -> Architecture:
        return architecture_of(
            self.model_dump(include={"name", "input_shape", "classes", "layers"})
        )


def is_file(text: str) -> bool:
    """Whether a model is named by its file."""
    return text.endswith(SUFFIX) or bool(PYTHON.fullmatch(text)) or _is_foreign(text)


def _is_foreign(text: str) -> bool:
    """Whether it is a file of another program, which must be imported first."""
    return Path(text).suffix in (".onnx", ".keras", ".h5", ".pt", ".pth")


def read(path: Path) -> ModelFile:
    """The model in a file; ManifestError where it is none."""
    try:
        found = ModelFile.model_validate_json(path.read_bytes())
        if found.format != FORMAT:
            raise ValueError(f"format {found.format}, this dlsuite reads {FORMAT}")
        _ = found.architecture
        return found
    except OSError as error:
        reason = error.strerror or "unreadable"
    except ValidationError as error:
        reason = first_problem(error)
    except (LookupError, TypeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, LookupError) else str(error)
    raise ManifestError(f"{path}: {reason}", hint="dlsuite model import FILE writes such a file")


def write(
    path: Path, architecture: Architecture, origin: Origin | None, weights: Weights | None
) -> None:
    """Write a model, and its weights beside it; raise OSError where that fails."""
    values = {
        "format": FORMAT,
        **architecture.to_json(),
        "origin": origin.model_dump() if origin else None,
    }
    values["layers"] = values.pop("layers")  # last, because it is long
    if weights:
        with replacing(weights_path(path)) as part:
            save_file({name: np.ascontiguousarray(each) for name, each in weights.items()}, part)
    write_atomically(path, json.dumps(values, indent=1) + "\n")


def weights_path(path: Path) -> Path:
    """The file of the weights beside that of a model."""
    return path.with_name(path.name.removesuffix(SUFFIX) + ".safetensors")


def read_weights(path: Path, architecture: Architecture) -> dict[str, NDArray[Any]]:
    """The parameters and statistics of a model; ManifestError where one is missing or wrong."""
    try:
        found = load_file(path)
    except (OSError, SafetensorError, AttributeError, LookupError, TypeError) as error:
        # The last ones are of a type that NumPy lacks, such as bfloat16.
        raise ManifestError(f"{path}: {error}", hint="save the weights in float32") from None
    for each in (*architecture.parameters(), *architecture.statistics()):
        shape = found[each.name].shape if each.name in found else None
        if shape != each.shape:
            raise ManifestError(
                f"{path}: {each.name} has shape {shape}, the model needs {each.shape}",
                hint="dlsuite model import FILE",
            )
        if not _are_floats(found[each.name]):
            raise ManifestError(
                f"{path}: {each.name} ({found[each.name].dtype}) has values that are no finite"
                " float32",
                hint="save finite weights in float32",
            )
    return found


def _are_floats(values: NDArray[Any]) -> bool:
    """Whether these are numbers with fractions, and finite in float32."""
    with np.errstate(over="ignore"):
        return values.dtype.kind == "f" and bool(np.isfinite(values.astype(np.float32)).all())


def register(path: Path) -> str:
    """Make the model of a file known by its name, which is returned.

    Raise ManifestError where the file is no model, or another model has the name.
    """
    if _is_foreign(path.name):
        raise ManifestError(
            f"{path} is not imported yet",
            hint=f"dlsuite model import {path} writes a {SUFFIX} file, which --model takes",
        )
    python = PYTHON.fullmatch(str(path))
    found = _of_python(python) if python else read(path).architecture
    known = MODELS.get(found.name)
    if known is not None and known() != found:
        raise ManifestError(
            f"{path}: another model is named {found.name!r}", hint=f'edit "name" in {path}'
        )
    MODELS[found.name] = lambda: found
    FILES[found.name] = path
    return found.name


def _of_python(parts: re.Match[str]) -> Architecture:
    """The model of a function in a file of Python; ManifestError where there is none."""
    path, function = Path(parts["file"]), parts["function"]
    spec = importlib.util.spec_from_file_location(f"models_of_user_{path.stem}", path.absolute())
    assert spec is not None and spec.loader is not None  # of a name that ends in .py
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        reason = reason_of(error, path.absolute())
        raise ManifestError(f"{path}: {reason}", hint=IMPORT.format(path)) from error
    makes = dict(makes_of(module, path))
    chosen = [function] if function else [*makes]
    if len(chosen) != 1 or chosen[0] not in makes:
        names = f"it has {', '.join(makes)}" if makes else "it has none"
        raise ManifestError(
            f"{parts.string}: one function that returns an Architecture is taken; {names}",
            hint=f"--model {path}:{next(iter(makes))}" if makes else IMPORT.format(path),
        )
    return makes[chosen[0]]()
