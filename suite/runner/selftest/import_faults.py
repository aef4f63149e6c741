"""Faults of an import, in copies of the readers: the comparison with the file must find each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from suite.engines.base import Engine, Prepared
from suite.errors import DlsuiteError, ParityFailed
from suite.importing import fidelity, reading
from suite.messages import Notify
from suite.runner.selftest.finding import Finding

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(1, 8, 3, 2))
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.gelu = nn.GELU("tanh")
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.mean = nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)
        self.hidden = nn.Linear(32, 32)
        self.tanh = nn.Tanh()
        self.head = nn.Linear(32, 5)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        x = self.gelu(self.grouped(self.norm(self.conv(x))))
        return self.head(self.tanh(self.hidden(self.mean(self.pool(x)).flatten(1))))
"""
MODULES, CONVERTER, COMMON = "pytorch_modules.py", "pytorch_converter.py", "common.py"
KEPT = "kept = values.detach().double().numpy()\n"
# Name: the file of the readers, what is replaced in it, and by what.
FAULTS = {
    "an even padding in place of an uneven one": (
        *(COMMON, "found = [int(each) for each in (top, bottom, left, right)]"),
        "found = [1, 1, 1, 1]",
    ),
    "the incomplete window omitted": (MODULES, '"ceil": bool(ceil)', '"ceil": False'),
    "the usual epsilon": (
        MODULES,
        '"epsilon": module.eps,\n        "mom',
        '"epsilon": 1e-5,\n        "mom',
    ),
    "the exact GELU": (MODULES, 'approximate == "tanh"', "False"),
    "a transposed weight": (
        *(CONVERTER, KEPT),
        f"{KEPT}            kept = kept.T if kept.shape == (32, 32) else kept\n",
    ),
    "a turned kernel": (
        *(CONVERTER, KEPT),
        f"{KEPT}            kept = kept.swapaxes(-1, -2) if kept.ndim == 4 else kept\n",
    ),
    "no bias": (
        *(MODULES, '"bias": module.bias is not None,\n        "groups"'),
        '"bias": False,\n        "groups"',
    ),
    "padding that counts": (MODULES, "counts = bool(count) or", "counts = True or"),
    "no groups": (
        MODULES,
        '"groups": module.groups,\n        "dil',
        '"groups": 1,\n        "dil',
    ),
    "an activation left out": (
        *(MODULES, "nn.Identity: lambda module, before, after: None,"),
        "nn.Tanh: lambda module, before, after: None,",
    ),
}


def findings(
    engine: Engine, prepared: dict[str, Prepared], work_dir: Path, notify: Notify
) -> Iterator[Finding]:
    """Import a network by each faulty reader, and by the one without a fault.

    Needs the Python of PyTorch's environment.
    """
    source = work_dir / "network_of_selftest.py"
    source.write_text(NET, encoding="utf-8")
    for number, name in enumerate((None, *FAULTS)):
        notify(f"fault in an import: {name}" if name else "import without a fault")
        folder = work_dir / f"import-{number}"
        folder.mkdir()
        readers = plant(name, folder)
        caught = _error_of_import(source, readers, engine, prepared, folder, notify)
        yield Finding(
            fault=name and f"import: {name}",
            framework="pytorch",
            variant="import",
            precision="float32",
            device="cpu",
            caught_by=caught,
        )


def plant(name: str | None, folder: Path) -> Path:
    """Make a copy of the readers in `folder`, with a fault unless `name` is None."""
    readers = folder / "planted" / reading.READERS.name
    shutil.copytree(reading.READERS, readers, ignore=shutil.ignore_patterns("__pycache__"))
    if name:
        file, right, wrong = FAULTS[name]
        text = (readers / file).read_text(encoding="utf-8")
        if text.count(right) != 1:
            raise DlsuiteError(
                f"the self-test's fault {name!r} no longer fits {file}",
                hint="update it in suite/runner/selftest/",
            )
        (readers / file).write_text(text.replace(right, wrong), encoding="utf-8")
    return readers


def _error_of_import(
    source: Path,
    readers: Path,
    engine: Engine,
    prepared: dict[str, Prepared],
    folder: Path,
    notify: Notify,
) -> str | None:
    """What the comparison finds; None where the layers are equal to the module."""
    python = prepared["pytorch"].python
    assert python is not None  # of the venv engine
    read = folder / "read"
    read.mkdir()
    try:
        imported = reading.from_pytorch(
            str(source),
            "Net",
            (1, 16, 16),
            name="network_of_selftest",
            python=python,
            folder=read,
            readers=readers,
        )
        fidelity.fidelity_of(imported, engine, prepared, folder, notify)
    except ParityFailed as error:
        return str(error)
    return None
