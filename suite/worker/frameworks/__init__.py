"""One folder for each framework, with the same modules in each.

- `session`: `LAYOUT`, `version()`, `device(trial)`, `memory(trial)` and `Session` (see
  `protocol.Session`), and `SETTINGS`, the trial settings that it accepts, if any.
- `layers`: the lowering of each kind of layer.
- `device`: the framework on a device, under a trial's settings.
- `inference`: `LAYOUT`, `version()`, `device(trial)`, `memory(trial)` and `Predictor` (see
  `protocol.Predictor`). A framework only for inference has no `session`.
- `native`: `version()` of a framework whose worker is a program in C++; the folder has its sources
  and the flags of its compiler (docs/explanation/native.md), and none of the other modules.
- `peak` (optional): `operations(trial, precisions, size, values)`, for the hardware peak.
- `distributed` (optional): how the ranks of a trial meet, and how they add their gradients.
- `loader` (optional): `batches(trial, photographs)`, an endless series of inputs and labels as
  `Session.put` takes them, read by the framework's own loader.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from ..protocol import Trial

MAIN = ("session", "inference", "native")  # a framework has one of these modules, or several
VARIANT = "DLSUITE_VARIANT"  # for a module that needs the variant when it is imported


def names() -> list[str]:
    """The frameworks of this worker, sorted."""
    modules = [path for name in MAIN for path in Path(__file__).parent.glob(f"*/{name}.py")]
    return sorted({path.parent.name for path in modules})


def load(trial: Trial) -> Any:
    """Import the framework's module `session`, or `inference` where the trial is inference.

    Raise NotImplementedError where a setting is unknown, or where there is no such module.
    """
    framework = trial.framework
    os.environ[VARIANT] = trial.variant
    module = _part(framework, "inference" if trial.scenario else "session")
    unknown = set(trial.settings) - set(getattr(module, "SETTINGS", ()))
    if unknown:
        raise NotImplementedError(f"{framework} has no settings {', '.join(sorted(unknown))}")
    return module


def main_module(framework: str) -> Any:
    """Import the first of the modules `MAIN` that the framework has."""
    folder = Path(__file__).parent / framework
    return _part(framework, next(each for each in MAIN if (folder / f"{each}.py").exists()))


def load_loader(framework: str) -> Any:
    """Import the framework's own loader of photographs."""
    return _part(framework, "loader")


def load_peak(framework: str) -> Any:
    """Import the framework's operations for the hardware peak."""
    return _part(framework, "peak")


def _part(framework: str, module: str) -> Any:
    if framework not in names():
        raise NotImplementedError(f"this worker has no framework {framework!r}")
    name = f"{__package__}.{framework}.{module}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # a package that the module needs
            raise
        raise NotImplementedError(f"{framework} has no module {module!r} in this worker") from None
