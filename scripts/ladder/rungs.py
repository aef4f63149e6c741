"""Write manifests/ladder.json: the rungs of the ladder, and the lines of their scripts.

Called by `make docs`; docs/explanation/inference.md says what counts as a line.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path

from pygount import SourceAnalysis

from suite.paths import MANIFESTS

FOLDER = Path(__file__).resolve().parent
# The lowest rung first.
RUNGS = (
    ("onednn",),
    ("onnxruntime", "openvino"),
    ("tensorflow", "pytorch", "jax", "mxnet", "paddle", "pytensor"),
    ("keras",),
)
NAMES = tuple(name for names in RUNGS for name in names)
TRAINING = re.compile(r"^(?:#|//) Training$", re.MULTILINE)
START = re.compile(r"^(?:run|int main)\(", re.MULTILINE)  # of the part that starts the model


def script(name: str) -> Path:
    """The script of a framework, in Python or C++."""
    (found,) = FOLDER.glob(f"lenet_{name}.*")
    return found


def command(name: str, python: Path, folder: Path) -> list[str]:
    """The command that runs a script with the framework's interpreter, without arguments.

    A program in C++ is first compiled into `folder`, with the headers and the library of the
    interpreter's environment. Raise subprocess.CalledProcessError where that fails.
    """
    source = script(name)
    if source.suffix == ".py":
        return [str(python), str(source)]
    place, program = python.parent.parent, folder / source.stem
    options = ["-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", f"-I{place / 'include'}"]
    linked = [f"-L{place / 'lib'}", f"-Wl,-rpath,{place / 'lib'}", "-ldnnl", "-o", str(program)]
    subprocess.run(["g++", *options, str(source), *linked], check=True)
    return [str(program)]


def counts(text: str, source: Path) -> tuple[int, int | None]:
    """The lines of the model with its inference, and those of training, in the text of a script."""
    model, *training = TRAINING.split(START.split(text)[0])
    return lines(model, source), lines(training[0], source) if training else None


def lines(text: str, source: Path) -> int:
    """The lines of code in a part of the file `source`."""
    file = io.StringIO(text)
    return SourceAnalysis.from_file(str(source), "", "utf-8", file_handle=file).source_count


def document() -> str:
    """The text of manifests/ladder.json."""
    found = {}
    for number, names in enumerate(RUNGS, start=1):
        for name in names:
            source = script(name)
            inference, training = counts(source.read_text(encoding="utf-8"), source)
            found[name] = {
                "rung": number,
                "script": f"scripts/ladder/{source.name}",
                "inference_lines": inference,
                "training_lines": training,
            }
    return json.dumps(found, indent=1) + "\n"


if __name__ == "__main__":
    (MANIFESTS / "ladder.json").write_text(document(), encoding="utf-8")
