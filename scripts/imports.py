"""Imports every classification model of torchvision, and prints a table of what became of it.

    PYTHON scripts/imports.py INTERPRETER [NAME...]

INTERPRETER has torch and torchvision. Each model is imported with random weights, as
`dlsuite model import` does, but its logits in the float64 reference are not computed. The number of
parameters is compared with torchvision's.
docs/measurements/imports.md has the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from suite.errors import DlsuiteError
from suite.importing import reading
from suite.worker.programs import ask

# torchvision's wheel on PyPI is for CUDA: without its own library, two operators must be declared.
SOURCE = """\
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from torchvision import models

def names():
    return models.list_models(module=models)

def parameters(name):
    return sum(each.numel() for each in __getattr__(name)().parameters())

def __getattr__(name):
    return lambda: models.get_model(name, weights=None)
"""
SIZES = {"inception_v3": 299}  # 224 for all others
HEAD = ("model", "layers", "parameters", "reason")


def main(interpreter: Path, names: list[str]) -> None:
    reading.SAMPLES = 2
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "models_of_torchvision.py"
        source.write_text(SOURCE)
        names = names or _ask(interpreter, folder, "print(*m.names())").split()
        print("| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|")
        imported = sum(_row(interpreter, source, name) for name in names)
        print(f"\n{imported} of {len(names)} are imported.")


def _row(interpreter: Path, source: Path, name: str) -> bool:
    size = SIZES.get(name, 224)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = reading.from_pytorch(
                str(source),
                name,
                (3, size, size),
                name=name,
                python=interpreter,
                folder=Path(folder),
            )
        except DlsuiteError as error:
            reason = str(error).partition("cannot be taken: ")[2] or str(error)
            print(f"| {name} | | | {reason.partition(';')[0]} |", flush=True)
            return False
    model = found.architecture
    own = int(_ask(interpreter, str(source.parent), f"print(m.parameters({name!r}))"))
    notes = list(found.notes) + list(_difference(model.parameter_count, own))
    layers = sum(1 for _ in model.leaves())
    print(f"| {name} | {layers} | {model.parameter_count:,} | {'; '.join(notes)} |", flush=True)
    return True


def _difference(ours: int, theirs: int) -> Iterator[str]:
    if ours != theirs:
        yield f"torchvision's has {theirs:,} with those of its auxiliary outputs"


def _ask(interpreter: Path, folder: str, code: str) -> str:
    answer = ask(
        [interpreter, "-W", "ignore", "-c", f"import models_of_torchvision as m; {code}"],
        timeout_s=600,
        cwd=Path(folder),
    )
    if answer.problem:
        raise SystemExit(answer.problem)
    return answer.output.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
