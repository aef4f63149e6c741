"""Ten faults of an import, planted into the readers: the comparison with the file finds each."""

import shutil
from pathlib import Path

import pytest

from suite.cli.model import import_model
from suite.errors import ParityFailed
from suite.importing import reading
from suite.models import MODELS

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
OPERATIONS, CONVERTER, COMMON = "pytorch_operations.py", "in_pytorch.py", "common.py"
KEPT = "kept = values.detach().double().numpy()\n"
FAULTS = {
    "an even padding in place of an uneven one": (
        *(COMMON, "found = [int(each) for each in (top, bottom, left, right)]"),
        "found = [1, 1, 1, 1]",
    ),
    "the incomplete window omitted": (OPERATIONS, '"ceil": bool(ceil)', '"ceil": False'),
    "the usual epsilon": (
        OPERATIONS,
        '"epsilon": module.eps,\n        "mom',
        '"epsilon": 1e-5,\n        "mom',
    ),
    "the exact GELU": (OPERATIONS, 'approximate == "tanh"', "False"),
    "a transposed weight": (
        *(CONVERTER, KEPT),
        f"{KEPT}            kept = kept.T if kept.shape == (32, 32) else kept\n",
    ),
    "a turned kernel": (
        *(CONVERTER, KEPT),
        f"{KEPT}            kept = kept.swapaxes(-1, -2) if kept.ndim == 4 else kept\n",
    ),
    "no bias": (
        *(OPERATIONS, '"bias": module.bias is not None,\n        "groups"'),
        '"bias": False,\n        "groups"',
    ),
    "padding that counts": (OPERATIONS, "counts = bool(count) or", "counts = True or"),
    "no groups": (
        OPERATIONS,
        '"groups": module.groups,\n        "dil',
        '"groups": 1,\n        "dil',
    ),
    "an activation left out": (
        *(OPERATIONS, "nn.Identity: lambda module, before, after: None,"),
        "nn.Tanh: lambda module, before, after: None,",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_an_import_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    readers = tmp_path / "planted" / reading.READERS.name
    shutil.copytree(reading.READERS, readers)
    file, right, wrong = FAULTS[name]
    source = (readers / file).read_text()
    assert source.count(right) == 1
    (readers / file).write_text(source.replace(right, wrong))
    monkeypatch.setattr(reading, "READERS", readers)
    try:
        with pytest.raises(ParityFailed):
            import_model("net.py:Net", "1x16x16")
    finally:
        MODELS.pop("net", None)
    assert not list(Path().glob("*.json"))


@pytest.mark.verify
def test_without_a_fault_the_model_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    import_model("net.py:Net", "1x16x16")
    MODELS.pop("net")
    assert Path("net.model.json").is_file()
