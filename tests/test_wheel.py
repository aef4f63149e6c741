"""The wheel works without the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.manifests.files import names
from suite.paths import REPOSITORY


@pytest.mark.verify
def test_an_installed_wheel_finds_its_manifests_and_locks(tmp_path: Path) -> None:
    """Installed into an empty environment, in a folder without the repository."""

    def run(*command: str | Path, **environ: str) -> str:
        reply = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "DLSUITE_HOME": str(tmp_path / "home"), **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert reply.returncode == 0, reply.stderr
        return reply.stdout

    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, REPOSITORY)
    (wheel,) = tmp_path.glob("dlsuite-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel)
    dlsuite = python.with_name("dlsuite")
    listed = run(dlsuite, "list")
    for name in (*names("framework"), *names("suite"), *names("track")):
        assert name in listed
    locks = (
        "from suite.paths import LOCKS; print(*(p.parent.name for p in LOCKS.glob('*/apt.txt')))"
    )
    assert sorted(run(python, "-c", locks).split()) == names("framework")
    assert run(dlsuite, "--version").startswith("dlsuite ")
