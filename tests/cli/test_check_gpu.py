"""`dlsuite check-gpu` where there is no GPU, and with a stub of nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.parity import workers
from suite.results import store
from tests.cli.test_cli import dlsuite
from tests.cli.test_gpus import boards, program

__all__ = ["program"]


def test_without_a_gpu_it_is_refused(tmp_path: Path) -> None:
    reply = dlsuite("check-gpu", "--engine", "venv", folder=tmp_path, PATH="/usr/bin:/bin")
    assert reply.returncode == 5 and "here are: none" in reply.stderr
    none = dlsuite("check-gpu", "--gpus", "0", folder=tmp_path)
    assert none.returncode == 2 and "check-gpu needs a GPU" in none.stderr
    assert not any(tmp_path.glob("results/*"))


@pytest.mark.verify
def test_a_framework_that_finds_no_cuda_says_so_in_one_line_each(
    program: Path, tmp_path: Path
) -> None:
    """The stub shows a GPU; PyTorch for the CPU, as the user's own, finds none."""
    program.write_text(boards())
    engine = VenvEngine()
    own = [
        f"--python={name}={engine.prepare(catalog.framework(name), print).python}"
        for name in workers.FRAMEWORKS
    ]
    reply = dlsuite(
        *("check-gpu", "--engine", "venv", *own, "--framework", "pytorch"),
        *("--max-time", "10s"),
        folder=tmp_path,
        PATH=f"{program.parent}:/usr/bin:/bin",
    )
    assert reply.returncode == 7 and "Traceback" not in reply.stderr
    assert "GPU check" in reply.stdout and "failed" in reply.stdout
    (file,) = tmp_path.glob("*-check_gpu.tar.gz")
    verified = dlsuite("verify", str(file), folder=tmp_path)
    assert verified.returncode == 0, verified.stdout
    records = store.read(next(tmp_path.glob("results/*-check_gpu")))
    assert {each.status for each in records} <= {"failed", "skipped"}
