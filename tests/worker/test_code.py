"""Rules for the worker's source: its imports, its Python version, the names in each framework."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.manifests import catalog
from suite.manifests.files import names
from suite.paths import LOCKS, WORKER

# Packages beside numpy, of the files that are only imported where they are.
OWN = {
    "blas.py": {"threadpoolctl"},
    "photograph.py": {"PIL"},
    "telemetry.py": {"psutil", "pynvml"},
    "loadgen.py": {"mlperf_loadgen"},
    "responder.py": {"mlperf_loadgen"},
    "onnx_graph.py": {"onnx"},
    "onnx_model.py": {"onnx"},
    "onnx_sequences.py": {"onnx"},
}
FRAMEWORKS = WORKER / "frameworks"
FILES = sorted(WORKER.rglob("*.py"))


def relative(file: Path) -> str:
    return file.relative_to(WORKER).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level modules of all absolute imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).split(".")[0]


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_it_imports_the_standard_library_numpy_and_its_own_framework(file: Path) -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy"}
    allowed |= OWN.get(file.name, set())
    if file.parent != FRAMEWORKS and file.is_relative_to(FRAMEWORKS):
        framework = file.relative_to(FRAMEWORKS).parts[0]
        allowed |= set(catalog.framework(framework).packages)
    assert set(imported(ast.parse(file.read_text()))) <= allowed


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_its_oldest_python_can_read_it(file: Path) -> None:
    oldest = (3, 6) if file.parent.name == "python36" else (3, 9)
    tree = ast.parse(file.read_text(), feature_version=oldest)
    assert oldest > (3, 6) or "__future__" not in imported(tree)  # its annotations are of 3.7


def folders_with(name: str, parent: Path) -> set[str]:
    """The folders in `parent` that hold a file `name`."""
    return {path.parent.name for path in parent.glob(f"*/{name}")}


def test_each_framework_has_a_module_a_manifest_and_locks() -> None:
    frameworks = set(names("framework"))
    assert folders_with("__init__.py", FRAMEWORKS) == frameworks
    assert folders_with("cpu.txt", LOCKS) | {"cudnn"} == frameworks  # cuDNN needs a GPU


def top_level(file: Path) -> list[str]:
    """The names that a module has by assignment, definition or import, in their order."""
    found: list[str] = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign):
            found.append(getattr(node.targets[0], "id", ""))
        elif isinstance(node, ast.ImportFrom):
            found += (each.asname or each.name for each in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(node.name)
    return found


@pytest.mark.parametrize("file", sorted(FRAMEWORKS.glob("*/session.py")), ids=relative)
def test_every_session_module_defines_the_same_names_in_the_same_order(file: Path) -> None:
    expected = ["LAYOUT", "version", "device", "memory", "Session"]
    assert [name for name in top_level(file) if name in expected] == expected


@pytest.mark.parametrize("file", sorted(FRAMEWORKS.glob("*/inference.py")), ids=relative)
def test_every_inference_module_has_the_same_names(file: Path) -> None:
    assert {"LAYOUT", "version", "device", "memory", "Predictor"} <= {*top_level(file)}
