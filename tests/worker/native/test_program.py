"""The compilation of a worker in C++."""

import re
import shutil
from pathlib import Path

import pytest

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
