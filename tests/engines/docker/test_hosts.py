"""Two engines on this machine, each reached by ssh through the loopback, as two hosts."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.engines.attempt import free_port
from suite.engines.docker.client import Daemon
from suite.engines.docker.engine import DockerEngine
from suite.engines.docker.hosts import HostsEngine, host_of
from suite.errors import UsageError
from suite.protocol.plan import Plan
from tests.conftest import made_up
from tests.engines.ranks import none_left, train

START_S = 30
BRIDGE = "dlsuite0"  # the network of the second engine
SSHD = Path("/usr/sbin/sshd")
SSHD_CONFIG = """\
ListenAddress 127.0.0.1
Port {first}
Port {second}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
Match LocalPort {second}
    SetEnv DOCKER_HOST=unix://{folder}/docker.sock
"""
SSH = """\
#!/bin/sh
exec /usr/bin/ssh -F none -i {folder}/key -o StrictHostKeyChecking=no \\
    -o UserKnownHostsFile={folder}/known -o LogLevel=ERROR "$@"
"""


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("ssh://user@a", "a"),
        ("ssh://user@10.0.0.1:2222", "10.0.0.1"),
        ("tcp://b:2375", "b"),
        ("unix:///run/docker.sock", "127.0.0.1"),
    ],
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize("address", ["a", "http://a", "ssh://", ""])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not an engine's address"):
        host_of(address)


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[str, str]]:
    """The addresses of this machine's engine and of a second one, both by ssh."""
    programs = (str(SSHD), "dockerd", "ip")
    missing = [name for name in programs if shutil.which(name) is None]
    if os.geteuid() or missing:
        pytest.skip(f"not installed: {', '.join(missing)}" if missing else "needs root")
    folder = Path("/run") / f"dlsuite-hosts-{os.getpid()}"  # a socket's path must be short
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        # The engine leaves the namespace of its host network mounted.
        stack.callback(
            subprocess.run, ["umount", folder / "exec" / "netns" / "default"], check=False
        )
        socket = folder / "docker.sock"
        subprocess.run(["ip", "link", "add", "name", BRIDGE, "type", "bridge"], check=True)
        stack.callback(subprocess.run, ["ip", "link", "delete", BRIDGE], check=True)
        stack.enter_context(_daemon(*_second_engine(folder), log=folder / "dockerd.log"))
        first, second = free_port(), free_port()
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
        subprocess.run(command, check=True)
        configuration = folder / "sshd_config"
        configuration.write_text(SSHD_CONFIG.format(first=first, second=second, folder=folder))
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = (str(SSHD), "-D", "-f", str(configuration))
        stack.enter_context(_daemon(*sshd, log=folder / "sshd.log"))
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(SSH.format(folder=folder))
        ssh.chmod(0o755)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
        _wait(lambda: socket.exists(), folder / "dockerd.log")
        addresses = f"ssh://root@127.0.0.1:{first}", f"ssh://root@127.0.0.1:{second}"
        for address in addresses:
            _wait(partial(answers, address), folder / "sshd.log")
        yield addresses


def answers(address: str) -> bool:
    with closing(Daemon(address)) as daemon:
        return daemon.answers()


def _second_engine(folder: Path) -> list[str]:
    """The command of an engine of its own."""
    every_cpu = f"0-{(os.cpu_count() or 1) - 1}"  # a process of the tests has only some
    return [
        "taskset",
        "--cpu-list",
        every_cpu,
        "dockerd",
        f"--host=unix://{folder}/docker.sock",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/docker.pid",
        f"--bridge={BRIDGE}",  # with `none`, it would remove that of the other engine
        "--iptables=false",
    ]


@contextmanager
def _daemon(*command: str, log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(condition: Callable[[], bool], log: Path) -> None:
    end, last = time.monotonic() + START_S, ""
    while time.monotonic() < end:
        try:
            if condition():
                return
        except Exception as error:
            last = str(error)
        time.sleep(0.2)
    pytest.fail(f"no answer: {last}; {log.read_text()[-1000:]}")


def hosts_engine(session: str, addresses: Iterable[str]) -> HostsEngine:
    return HostsEngine([DockerEngine(session, address=address) for address in addresses])


@pytest.mark.docker
@pytest.mark.verify
def test_two_hosts_train_one_model(
    hosts: tuple[str, str], quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("mxnet").trials[0]  # its image is the smallest
    inputs = made_up(trial.workload, tmp_path)
    session = sessions.new_id()
    with sessions.session(session), hosts_engine(session, hosts) as engine:
        done = train(engine, trial, inputs, tmp_path / "two-hosts", device="cpu:1x2")
        assert (done.status, len(done.ranks)) == ("ok", 2), done.error
        assert (tmp_path / "two-hosts" / "results" / "rank1" / "closing").is_dir()
        folder = tmp_path / "killed"
        killed = train(engine, trial, inputs, folder, device="cpu:1x2", kill=1, epochs=1000)
        assert killed.status == "failed" and killed.error
        ending = "the process was killed by SIGKILL; the kernel sends it when memory runs out"
        assert killed.error.message == f"rank 1: {ending}"
    assert none_left(engine, folder)
    for address in hosts:
        with closing(Daemon(address)) as daemon:
            assert not daemon.containers({"dlsuite.session": session})


@pytest.mark.docker
@pytest.mark.verify
def test_one_engine_with_two_addresses_is_refused(hosts: tuple[str, str]) -> None:
    session, (first, _) = sessions.new_id(), hosts
    with (
        pytest.raises(UsageError, match="are one engine"),
        sessions.session(session),
        hosts_engine(session, (first, "unix:///var/run/docker.sock")),
    ):
        pass
