"""An engine whose containers have stand-ins for GPUs, by CDI (.ci/cdi-engine).

The specification gives each device a node /dev/nvidiaN, which is /dev/null, and all containers a
library in NVML's place and a program nvidia-smi that lists the nodes that it finds.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.engines.docker.engine import DockerEngine
from suite.engines.settings import Settings
from tests.conftest import Tiny

NVML_SOURCE = Path(__file__).parents[2] / "worker" / "fake_nvml.c"
LETTERS = "abcdefgh"
UUIDS = [f"GPU-{letter * 4}" for letter in LETTERS]
NVIDIA_SMI = """#!/bin/sh
number=0
for node in /dev/nvidia[0-9]; do
    [ -e "$node" ] || continue
    letter=$(echo abcdefgh | cut -c$((${node#/dev/nvidia} + 1)))
    uuid=GPU-$letter$letter$letter$letter
    case "$*" in
        *-L*) echo "GPU $number: Stand-in (UUID: $uuid)" ;;
        *compute_cap*) echo "$uuid, 9.0" ;;
        *) echo "$uuid, Stand-in, 590.48.01, 16384 MiB, Default" ;;
    esac
    number=$((number + 1))
done
"""
FILES = "/opt/stand-in"  # in the engine's folder


@pytest.fixture(scope="session")
def address() -> str:
    """The address of the engine; the tests are skipped where there is none."""
    found = os.environ.get("DLSUITE_CDI_ENGINE")
    if not found:
        if os.environ.get("DLSUITE_REQUIRE_CDI"):
            pytest.fail("DLSUITE_REQUIRE_CDI is set, and there is no engine that knows CDI")
        pytest.skip("no engine that knows CDI: source .ci/cdi-engine; cdi_engine")
    return found


@pytest.fixture(scope="session")
def specify(address: str) -> Iterator[Callable[..., None]]:
    """Writes the specification of so many devices; `mood` is that of NVML (fake_nvml.c)."""
    root = Path(os.environ["DLSUITE_CDI_ROOT"])
    files = root / FILES.lstrip("/")
    files.mkdir(parents=True, exist_ok=True)
    library = files / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, NVML_SOURCE], check=True)
    (files / "nvidia-smi").write_text(NVIDIA_SMI)
    (files / "nvidia-smi").chmod(0o755)
    place = root / "etc" / "cdi" / "nvidia.json"

    def write(count: int = 2, mood: str = "fine") -> None:
        place.write_text(json.dumps(specification(count, mood)))

    write()
    yield write
    place.unlink(missing_ok=True)


def specification(count: int, mood: str) -> dict[str, object]:
    """Devices by number, by UUID, and all of them, as nvidia-ctk names them."""

    def nodes(numbers: range) -> dict[str, object]:
        return {
            "deviceNodes": [
                {"path": f"/dev/nvidia{n}", "hostPath": "/dev/null", "type": "c"} for n in numbers
            ]
        }

    mounts = [
        (f"{FILES}/nvidia-smi", "/usr/bin/nvidia-smi"),
        (f"{FILES}/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
    ]
    single = [(str(n), range(n, n + 1)) for n in range(count)]
    single += [(UUIDS[n], range(n, n + 1)) for n in range(count)]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": name, "containerEdits": nodes(numbers)}
            for name, numbers in [*single, ("all", range(count))]
        ],
        "containerEdits": {
            "env": [f"FAKE_NVML={mood}", f"FAKE_NVML_COUNT={count}"],
            "mounts": [
                {
                    "hostPath": source,
                    "containerPath": target,
                    "options": ["ro", "nosuid", "nodev", "bind"],
                }
                for source, target in mounts
            ],
        },
    }


@pytest.fixture
def on_gpus(
    address: str, specify: Callable[..., None], tiny: Tiny, home: Path
) -> Iterator[Callable[..., DockerEngine]]:
    """Makes an engine with these GPUs, of so many; its images are the tiny one."""
    lock = tiny.locks / "tiny" / "cuda.txt"
    lock.write_text("# empty\n")

    def make(gpus: str, count: int = 2, mood: str = "fine") -> DockerEngine:
        from suite.engines.gpus import parse

        specify(count, mood)
        return DockerEngine(
            uuid.uuid4().hex[:12],
            Settings(gpus=parse(gpus)),
            worker=tiny.worker,
            locks=tiny.locks,
            address=address,
        )

    yield make
    lock.unlink()
    specify()
