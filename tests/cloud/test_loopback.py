"""`dlsuite cloud` with the real SkyPilot, on a Slurm cluster of this machine."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.paths import home
from tests.cloud.loopback import CLUSTER, Loopback

pytestmark = [pytest.mark.slurm, pytest.mark.verify]
DLSUITE = (sys.executable, "-m", "suite.cli")
OPTIONS = ("--framework", "pytorch", "--repeats", "1", "--engine", "venv")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    sky = os.environ.get("DLSUITE_SKYPILOT")
    programs = ("slurmctld", "sshd", "rsync", "unshare")
    missing = [each for each in programs if shutil.which(each) is None]
    if not sky:
        pytest.skip("DLSUITE_SKYPILOT, the environment of SkyPilot, is not set")
    if missing or os.geteuid():
        pytest.skip(f"needs root and {', '.join(missing)}")
    made = Loopback(tmp_path_factory.mktemp("loop"), Path(sky))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def place(partition: str) -> tuple[str, ...]:
    return "--infra", f"slurm/{CLUSTER}/{partition}", "--cpus", "2"


def name(partition: str) -> str:
    return f"dlsuite-quick-slurm-{CLUSTER}-{partition}"


def cloud(loop: Loopback, command: str, *arguments: str) -> list[str]:
    """A command of `dlsuite cloud`; the machine uses the environments and data of this one."""
    shared = ("--env", f"DLSUITE_HOME={home()}", "--max-price", "1") if command == "run" else ()
    return [*DLSUITE, "cloud", command, *shared, *arguments]
