import subprocess
from pathlib import Path

import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.worker.protocol import Trial


@pytest.fixture
def trial(trial_folder: Path) -> Trial:
    """A trial on 200 generated images."""
    return Trial.read(trial_folder)


def python_of(framework: str) -> Path:
    """The interpreter of a framework's environment."""
    python = VenvEngine().prepare(catalog.framework(framework), lambda text: None).python
    assert python is not None
    return python


def in_environment(
    framework: str, code: str, *arguments: str, folder: Path, timeout_s: float = 120
) -> str:
    """The output of Python code in a framework's environment; it can import the worker."""
    engine = VenvEngine()
    python = engine.prepare(catalog.framework(framework), lambda text: None).python
    reply = subprocess.run(
        [str(python), "-c", code, *arguments],
        env={"PYTHONPATH": str(engine.staged()), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=timeout_s,
        check=False,
    )
    assert reply.returncode == 0, reply.stderr
    return reply.stdout
