"""The compilation of a worker in C++."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.worker.native import program


def test_a_failed_compilation_names_the_compilers_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(program.NATIVE.parent, tmp_path / "worker")
    monkeypatch.setattr(program, "NATIVE", tmp_path / "worker/native")
    for path in program.NATIVE.glob("*.cpp"):
        path.write_text("#error of the test\n" if path.name == "fold.cpp" else "")
    with pytest.raises(RuntimeError) as caught:
        program._compile("onednn", tmp_path / "out")
    (line,) = [part for part in str(caught.value).split("; ") if "fold.cpp" in part]
    assert re.search(r"fold\.cpp:1:2: error: #error of the test", line)
    assert "-std=c++17" not in str(caught.value)


@pytest.mark.verify
def test_the_sources_have_no_warnings(tmp_path: Path) -> None:
    """A user's compiler may warn; it does not end the compilation there."""
    python = VenvEngine().prepare(catalog.framework("onednn"), print).python
    assert python
    folders = (program.NATIVE, program.FRAMEWORKS / "onednn")
    sources = [path for folder in folders for path in folder.glob("*.cpp")]
    assert sources
    command = ["make", "--silent", "--jobs=2", f"--directory={program.NATIVE}"]
    command += ["FRAMEWORK=onednn", f"PREFIX={python.parent.parent}", f"OUTPUT={tmp_path}"]
    command += ["CXX=g++ -Werror -fsyntax-only", *(f"{tmp_path}/{each.stem}.o" for each in sources)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.returncode == 0, reply.stderr


def test_a_compiler_of_several_words_and_a_missing_one(monkeypatch) -> None:
    monkeypatch.setenv("CXX", "env g++")
    assert "g++" in program._compiler() or "GCC" in program._compiler()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match=r"no-such-compiler: not on PATH: set CXX"):
        program._compiler()
