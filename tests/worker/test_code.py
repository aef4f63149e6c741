"""What the worker's source may be: it shares no code with the host, and old Pythons can read it."""

import ast
import sys
from collections.abc import Iterator

import pytest

from suite.paths import WORKER
from suite.worker.frameworks import MODULES

FILES = sorted(WORKER.rglob("*.py"))
OWN = {
    "pytorch": {"torch"},
    "tensorflow": {"tensorflow"},
    "jax": {"jax", "flax", "optax"},
    "mxnet": {"mxnet"},
    "keras": {"keras"},
    "pytorch_layers": {"torch"},
    "tensorflow_layers": {"tensorflow"},
    "jax_layers": {"jax", "flax"},
    "jax_matmul": {"jax"},
    "mxnet_layers": {"mxnet"},
    "keras_layers": {"keras"},
    "pytorch_device": {"torch"},
    "pytorch_limit": {"torch"},
    "tensorflow_limit": {"tensorflow"},
    "jax_limit": {"jax"},
    "mxnet_limit": {"mxnet"},
    "tensorflow_device": {"tensorflow"},
    "jax_device": {"jax"},
    "pytorch_loader": {"torch", "PIL"},
    "tensorflow_loader": {"tensorflow"},
    "mxnet_loader": {"mxnet"},
    "keras_loader": {"tensorflow"},
    "keras_tensorflow": {"tensorflow"},
    "keras_jax": {"jax"},
    "keras_pytorch": {"keras", "torch"},
}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).split(".")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_the_standard_library_numpy_and_its_own_framework(file) -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy"}
    if file.name == "telemetry.py":
        allowed |= {"psutil", "pynvml"}
    if file.parent.name == "frameworks":
        allowed |= OWN.get(file.stem, set())
    assert set(imported(ast.parse(file.read_text()))) <= allowed


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_python_3_9_can_read_it(file) -> None:
    ast.parse(file.read_text(), feature_version=(3, 9))


def test_every_module_has_the_same_names_in_the_same_order() -> None:
    wanted = ["LAYOUT", "version", "device", "memory", "Session"]
    for module in MODULES.values():
        file = WORKER.joinpath(*module.strip(".").split(".")).with_suffix(".py")
        body = ast.parse(file.read_text()).body
        names = [
            getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else node.name
            for node in body
            if isinstance(node, (ast.Assign, ast.FunctionDef, ast.ClassDef))
        ]
        assert [name for name in names if name in wanted] == wanted, file.name
