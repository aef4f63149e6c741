"""Imports every classification model of torchvision, and prints a table of what became of it.

    python scripts/imports.py INTERPRETER [NAME...]

INTERPRETER has torch and torchvision. Each model is imported with random weights, as
`dlsuite model import` does, but with fewer random inputs. The number of parameters is compared with
torchvision's. docs/measurements/imports.md has the table.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from suite.cli.model import import_model
from suite.errors import DlsuiteError
from suite.importing import reading
from suite.manifests import model_files
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
SAMPLES = 2  # with the own weights, and with changed ones
HEAD = ("model", "layers", "parameters", "error", "with changed weights", "reason or note")


def main(interpreter: Path, names: list[str]) -> None:
    reading.SAMPLES = reading.CHANGED_SAMPLES = SAMPLES
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("models_of_torchvision.py").write_text(SOURCE)
        names = names or _ask(interpreter, "print(*m.names())").split()
        print("| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|", flush=True)
        imported = sum(_row(interpreter, name) for name in names)
    print(f"\n{imported} of {len(names)} are imported and equal to the file.")


def _row(interpreter: Path, name: str) -> bool:
    size, file = SIZES.get(name, 224), Path(f"tv_{name}{model_files.SUFFIX}")
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            import_model(
                f"models_of_torchvision.py:{name}",
                f"3x{size}x{size}",
                file,
                [f"pytorch={interpreter}"],
            )
    except DlsuiteError as error:
        reason = str(error).partition("cannot be taken: ")[2] or str(error)
        print(f"| {name} | | | | | {reason.partition(';')[0]} |", flush=True)
        return False
    found = model_files.read(file)
    model, origin = found.architecture, found.origin
    assert origin is not None and origin.changed_error is not None  # of an import
    own = int(_ask(interpreter, f"print(m.parameters({name!r}))"))
    notes = "; ".join([*origin.notes, *_difference(model.parameter_count, own)])
    layers = sum(1 for _ in model.leaves())
    errors = f"{origin.error:.0e} | {origin.changed_error:.0e}"
    print(f"| {name} | {layers} | {model.parameter_count:,} | {errors} | {notes} |", flush=True)
    model_files.weights_path(file).unlink()
    return True


def _difference(ours: int, theirs: int) -> Iterator[str]:
    if ours != theirs:
        yield f"torchvision's has {theirs:,} with those of its auxiliary outputs"


def _ask(interpreter: Path, code: str) -> str:
    answer = ask(
        [interpreter, "-W", "ignore", "-c", f"import models_of_torchvision as m; {code}"],
        timeout_s=600,
    )
    if answer.problem:
        raise SystemExit(answer.problem)
    return answer.output.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
