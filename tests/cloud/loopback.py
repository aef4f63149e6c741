"""SkyPilot with a Slurm cluster of this machine as its provider, for tests.

Everything runs in a mount namespace: /root is an overlay, so that what SkyPilot writes into the
home folder (keys, .bashrc, its state) is thrown away, and /etc/hosts has the names of the nodes.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from suite.engines.attempt import free_port

USER_HASH = "d15ea5ed"
CLUSTER = "loop"
PRICES = {"cheap": 0.04, "dear": 0.40}  # dollars per CPU and hour
CONFIGURATION = """\
ClusterName={cluster}
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
SelectTypeParameters=CR_CPU
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
MpiDefault=none
KillWait=2
UnkillableStepTimeout=120
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2
PartitionName=cheap Nodes=n1 Default=YES State=UP
PartitionName=dear Nodes=n2 State=UP
"""
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub /root/.ssh/authorized_keys
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile {folder}/sshd.pid
SetEnv {variables}
Subsystem sftp internal-sftp
"""
SKY = """\
slurm:
  provision_timeout: 60
  cluster_configs:
    {cluster}:
      partition_configs:
        cheap: {{pricing: {{cpu: {cheap}}}}}
        dear: {{pricing: {{cpu: {dear}}}}}
"""
HOST = """\
Host {cluster}
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {folder}/client_key
"""
# Of package indexes, proxies and certificates: the machine needs them as this one does.
NETWORK = re.compile(r"(PIP|UV|SSL|REQUESTS|CURL|HTTPS?|NO|https?|no)_")
START_S = 30
Done = subprocess.CompletedProcess[str]


@dataclass
class Loopback:
    """The cluster, its sshd, and the namespace in which commands see them."""

    folder: Path
    sky: Path  # the environment of SkyPilot
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _holder: int = 0

    def start(self) -> None:
        """Start everything; RuntimeError with the logs where the nodes do not come up."""
        self._namespace()
        ports = {name: free_port() for name in ("controller", "first", "second", "ssh", "api")}
        self._ports = ports
        self._write(ports)
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        self._start("slurmctld", "-D")
        for node in ("n1", "n2"):
            self._start("slurmd", "-D", "-N", node)
        Path("/run/sshd").mkdir(exist_ok=True)
        self._start(shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(self.folder / "sshd"))
        end = time.monotonic() + START_S
        while self.run("sinfo", "-hN", "-o", "%T").stdout.split() != ["idle", "idle"]:
            if time.monotonic() > end:
                logs = [each.read_text()[-1000:] for each in self.folder.glob("*.log")]
                raise RuntimeError("\n".join(logs))
            time.sleep(0.2)

    def stop(self) -> None:
        """End SkyPilot's server, the jobs and the daemons."""
        with suppress(subprocess.TimeoutExpired):
            self.run(str(self.sky / "bin/sky"), "api", "stop", timeout=60)
            self.run("scancel", "--user=root", timeout=10)
        for each in reversed(self._processes):
            each.terminate()
        for each in self._processes:
            with suppress(subprocess.TimeoutExpired):
                each.wait(timeout=10)
            each.kill()
            each.wait()
        os.environ.pop("SLURM_CONF", None)

    def run(
        self, *command: str, timeout: float = 600, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace, to its end."""
        return subprocess.run(
            self.inside(*command),
            env=self.environment(**more),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.folder,
        )

    def begin(self, *command: str, **more: str) -> subprocess.Popen[str]:
        """Start a command in the namespace."""
        return subprocess.Popen(
            self.inside(*command),
            env=self.environment(**more),
            text=True,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self._holder}", "--mount", f"--wd={self.folder}", *command]

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self.sky / 'bin'}:{os.environ['PATH']}",
            "HOME": "/root",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            "SKYPILOT_API_SERVER_LOCAL_PORT": str(self._ports["api"]),
            **more,
        }

    def prepare(self, name: str) -> None:
        """Put what SkyPilot would download for the machine `name` where it looks for it."""
        id_of = f"{name}-{USER_HASH}"
        script = f"""
            mkdir -p ~/.sky_clusters/{id_of}/.local/bin /tmp/{id_of}
            cp {self.sky}/bin/uv ~/.sky_clusters/{id_of}/.local/bin/uv
            cd /tmp/{id_of}
            test -d skypilot-runtime ||
                {self.sky}/bin/uv venv --quiet --seed --python {sys.executable} skypilot-runtime
        """
        done = self.run("bash", "-ec", script)
        assert done.returncode == 0, done.stderr

    def jobs(self) -> list[str]:
        """The names of Slurm's jobs that are pending or run."""
        return self.run("squeue", "--noheader", "--format=%j").stdout.split()

    def _namespace(self) -> None:
        """A process whose mounts are its own: /root is an overlay, /etc/hosts another file."""
        for name in ("upper", "work", "state"):
            (self.folder / name).mkdir()
        hosts = Path("/etc/hosts").read_text(encoding="utf-8") + "\n127.0.0.1 n1 n2\n"
        (self.folder / "hosts").write_text(hosts)
        overlay = f"lowerdir=/root,upperdir={self.folder}/upper,workdir={self.folder}/work"
        script = (
            f"mount -t overlay overlay -o {overlay} /root && "
            f"mount --bind {self.folder}/hosts /etc/hosts && touch {self.folder}/mounted && "
            "exec sleep infinity"
        )
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        process = subprocess.Popen(command)
        self._processes.append(process)
        self._holder = process.pid
        end = time.monotonic() + START_S
        while not (self.folder / "mounted").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("no mount namespace can be made here")
            time.sleep(0.05)

    def _write(self, ports: dict[str, int]) -> None:
        folder, host = self.folder, socket.gethostname().partition(".")[0]
        values = {"folder": folder, "host": host, "user": getpass.getuser(), "cluster": CLUSTER}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**values, **ports))
        own = {"SLURM_CONF": folder / "slurm.conf", "UV_CACHE_DIR": folder / "uv"}
        network = {name: value for name, value in os.environ.items() if NETWORK.match(name)}
        variables = " ".join(f'"{name}={value}"' for name, value in {**network, **own}.items())
        (folder / "sshd").write_text(
            SSHD.format(port=ports["ssh"], folder=folder, variables=variables)
        )
        for key in ("host_key", "client_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        (folder / "sky.yaml").write_text(SKY.format(cluster=CLUSTER, **PRICES))
        (folder / "ssh_host").write_text(
            HOST.format(cluster=CLUSTER, port=ports["ssh"], folder=folder)
        )
        script = f"""
            rm -rf /root/.sky /root/.slurm /root/.sky_clusters
            mkdir -p /root/.sky /root/.slurm
            printf {USER_HASH} >/root/.sky/user_hash
            cp {folder}/sky.yaml /root/.sky/config.yaml
            cp {folder}/ssh_host /root/.slurm/config
        """
        subprocess.run(self.inside("bash", "-ec", script), check=True)

    def _start(self, *command: str) -> None:
        name = Path(command[0]).name + "-".join(command[2:])[-4:].replace("/", "")
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(self.inside(*command), stdout=log, stderr=log)
        self._processes.append(process)
