"""The search for interpreters, on a machine without any but those of the test."""

import os
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from suite.engines.venv import interpreters
from suite.errors import EngineError


def python_of(folder: Path, version: str) -> Path:
    """A program that prints a version as Python does."""
    folder.mkdir(parents=True)
    program = folder / f"python{version.rsplit('.', 1)[0]}"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    (folder / "python3").symlink_to(program)
    return program


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH, pyenv and uv without interpreters; returns the folder of all three."""
    for name in ("PATH", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    interpreters.probe.cache_clear()
    return tmp_path


def test_this_python_is_used_if_it_fits(empty_machine: Path) -> None:
    found = interpreters.find(">=3.11")
    assert found is not None and found[0] == Path(sys.executable)


@pytest.mark.parametrize(
    "folder", ["PATH", "PYENV_ROOT/versions/3.9.1/bin", "UV_PYTHON_INSTALL_DIR/cpython-3.9.1/bin"]
)
def test_others_are_found_on_path_in_pyenv_and_in_uv(empty_machine: Path, folder: str) -> None:
    python_of(empty_machine / folder, "3.9.1")
    found = interpreters.find(">=3.8,<3.10")
    assert found is not None
    assert found[1] == Version("3.9.1")
    assert os.path.commonpath([found[0], empty_machine / folder]) == str(empty_machine / folder)


def test_an_interpreter_outside_the_range_is_not_used(empty_machine: Path) -> None:
    python_of(empty_machine / "PATH", "3.9.1")
    assert interpreters.find("<3.8") is None


def test_a_broken_interpreter_is_not_used(empty_machine: Path) -> None:
    program = python_of(empty_machine / "PATH", "3.9.1")
    program.write_text("#!/bin/sh\nexit 1\n")
    assert interpreters.find("<3.10") is None
    program.write_text("no program")
    interpreters.probe.cache_clear()
    assert interpreters.find("<3.10") is None


def test_the_version_and_packages_of_an_interpreter_are_listed() -> None:
    packages = interpreters.packages(Path(sys.executable))
    assert packages[0].startswith("python==3.")
    assert f"pytest=={pytest.__version__}" in packages


def test_a_program_that_is_not_a_python_is_refused(tmp_path: Path) -> None:
    program = python_of(tmp_path / "bin", "3.9.1")
    with pytest.raises(EngineError, match="does not start as a Python"):
        interpreters.packages(program)
