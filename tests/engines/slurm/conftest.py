"""A Slurm cluster of two nodes, both on this machine."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from suite.engines.attempt import free_port

CONFIGURATION = """\
ClusterName=dlsuite
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
MpiDefault=none
KillWait=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""
START_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cluster's configuration is in SLURM_CONF, so Slurm's commands use it."""
    if shutil.which("slurmctld") is None or os.geteuid():
        missing = "slurmctld is not installed, or this user is not root"
        if os.environ.get("DLSUITE_REQUIRE_SLURM"):
            pytest.fail(f"DLSUITE_REQUIRE_SLURM is set, and {missing}")
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    ports = {name: free_port() for name in ("controller", "first", "second")}
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    configuration.write_text(CONFIGURATION.format(host=host, user=user, folder=folder, **ports))
    os.environ["SLURM_CONF"] = str(configuration)
    daemons = [
        _start(folder, ["slurmctld", "-D"]),
        *(_start(folder, ["slurmd", "-D", "-N", node]) for node in ("n1", "n2")),
    ]
    try:
        _wait_for_nodes(folder)
        yield
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=10)
            daemon.kill()
            daemon.wait()
        del os.environ["SLURM_CONF"]


def _start(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    with (folder / f"{'-'.join(command)}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _wait_for_nodes(folder: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        states = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%T"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        if states == ["idle", "idle"]:
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text()[-1000:] for path in folder.glob("*.log"))
    pytest.fail(f"the cluster did not start: {logs}")
