"""One module for each framework, with the same names in the same order.

`LAYOUT`, `version()`, `device(trial)`, `memory(trial)` and `Session` (see `protocol.Session`);
`SETTINGS` names those of a trial's settings that it takes, if any. A framework that reads
photographs by itself has a second one, `<name>_loader`, with `batches(trial, photographs)`: an
endless series of inputs and labels as `Session.put` takes them. One that shows what a device can do
has `<name>_limit`, with `operations(trial, precisions, size, values)`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..protocol import Trial

MODULES = {
    "pytorch": ".frameworks.pytorch",
    "tensorflow": ".frameworks.tensorflow",
    "jax": ".frameworks.jax",
    "mxnet": ".frameworks.mxnet",
    "keras": ".frameworks.keras",
}
VARIANT = "DLSUITE_VARIANT"  # for a module that must know the variant when it is imported


def load(trial: Trial) -> Any:
    """The framework's module, imported now; NotImplementedError where a setting is not its."""
    framework = trial.framework
    os.environ[VARIANT] = trial.variant
    module = importlib.import_module(MODULES[framework], package="suite.worker")
    unknown = set(trial.settings) - set(getattr(module, "SETTINGS", ()))
    if unknown:
        raise NotImplementedError(f"{framework} has no settings {', '.join(sorted(unknown))}")
    return module


def load_loader(framework: str) -> Any:
    """The framework's own way to read photographs, imported now."""
    return importlib.import_module(f"{MODULES[framework]}_loader", package="suite.worker")


def load_limit(framework: str) -> Any:
    """The framework's operations that show a device's limit, imported now."""
    return importlib.import_module(f"{MODULES[framework]}_limit", package="suite.worker")
