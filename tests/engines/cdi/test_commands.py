"""Commands with `--gpus` on an engine whose containers have stand-ins for GPUs.

The images are those of a copy of this checkout, in which the locks of PyTorch and JAX for GPUs are
those for the CPU: PyTorch itself then finds no CUDA, and everything before that is real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.paths import REPOSITORY
from suite.results import store

pytestmark = pytest.mark.docker
Command = Callable[..., subprocess.CompletedProcess[str]]
MAIN = "import sys; sys.argv[0] = 'dlsuite'; from suite.cli.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("checkout")
    for folder in ("suite", "manifests", "docker"):
        shutil.copytree(
            REPOSITORY / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for framework in ("pytorch", "jax"):  # those of the reference
        locks = place / "docker" / framework
        shutil.copyfile(locks / "cpu.txt", locks / "cuda.txt")
    return place


@pytest.fixture
def dlsuite(address: str, checkout: Path, tmp_path: Path) -> Command:
    def call(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", MAIN, *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(checkout),
                "DOCKER_HOST": address,
                "DLSUITE_ENGINE": "docker",
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_doctor_says_that_the_engine_knows_cdi(
    dlsuite: Command, specify: Callable[..., None]
) -> None:
    """Docker lists the devices only from 28.2 on."""
    specify(8)
    reply = dlsuite("doctor")
    assert "the engine knows CDI" in reply.stdout, reply.stdout + reply.stderr


@pytest.mark.verify
def test_a_shell_has_the_gpu_and_the_sampler_reads_it(
    dlsuite: Command, specify: Callable[..., None]
) -> None:
    specify(2)
    listed = dlsuite("shell", "pytorch", "--gpus", "GPU-bbbb", "--", "nvidia-smi", "-L")
    assert listed.stdout.strip() == "GPU 0: Stand-in (UUID: GPU-bbbb)", listed.stderr
    at_the_end: dict[str, Callable[[Any], bool]] = {
        "fine": lambda gpu: gpu["energy_j"] > 1000,
        "vanishes": lambda gpu: gpu["used_bytes"] is None and gpu["power_w"] is None,
        "fails": lambda gpu: gpu["energy_j"] is None and gpu["power_w"] > 0,
    }
    for mood, fits in at_the_end.items():
        specify(2, mood)
        # Twelve samples take a second, longer than the fault needs to start.
        script = (
            "touch /tmp/samples.jsonl; "
            "while [ $(wc -l </tmp/samples.jsonl) -lt 12 ]; do sleep 0.1; done | "
            "python -m suite.worker.telemetry /tmp/samples.jsonl $$ 0.1 0.5 0 >/dev/null; "
            "cat /tmp/samples.jsonl"
        )
        reply = dlsuite("shell", "pytorch", "--gpus", "1", "--", "sh", "-c", script)
        samples = [json.loads(line) for line in reply.stdout.splitlines() if line.startswith("{")]
        assert len(samples) > 5, reply.stdout + reply.stderr
        assert samples[0]["gpu"]["uuid"] == "GPU-aaaa"
        assert fits(samples[-1]["gpu"]), (mood, samples[-1])


@pytest.mark.verify
@pytest.mark.parametrize(
    "command",
    [("run", "quick", "--gpus", "1", "--repeats", "1"), ("check-gpu", "--max-time", "10s")],
)
def test_a_framework_that_finds_no_cuda_in_its_container_says_so_in_one_line(
    dlsuite: Command, specify: Callable[..., None], tmp_path: Path, command: tuple[str, ...]
) -> None:
    specify(1)
    reply = dlsuite(*command, "--framework", "pytorch")
    output = reply.stdout + reply.stderr
    assert reply.returncode == 7 and "Traceback" not in output, output
    assert "CUDA" in reply.stdout
    records = store.read((tmp_path / "results" / "latest").resolve())
    (uuids,) = {tuple(gpu["uuid"] for gpu in each.environment["gpus"]) for each in records}
    assert uuids == ("GPU-aaaa",)
    assert {each.status for each in records} <= {"failed", "skipped"}
    assert all(each.image_id for each in records if each.status == "failed")
