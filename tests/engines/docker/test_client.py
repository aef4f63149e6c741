"""How the client interprets an engine's values; all else is tested on a real engine."""

import errno
import os
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import requests

from suite.engines.docker import client, connection, streaming
from suite.engines.docker.container import State
from suite.engines.errors import EngineLost, EngineMisconfigured
from suite.errors import EngineError

ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class Late(socketserver.StreamRequestHandler):
    """Forwards a connection to the engine; each of its answers, but the first, is late."""

    first = True

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(ENGINE)
            while request := self.request.recv(2**16):
                engine.sendall(request)
                answer = engine.recv(2**20)
                time.sleep(0 if Late.first else 1.5)
                Late.first = False
                self.request.sendall(answer)


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True  # a connection may still be open at the end


@pytest.fixture
def late(tmp_path: Path) -> Iterator[str]:
    """The address of an engine whose answers take 1.5 s, but the first."""
    with Server(str(tmp_path / "socket"), Late) as server:
        Late.first = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}).start()
        yield f"unix://{tmp_path}/socket"
        server.shutdown()


@pytest.mark.docker
def test_an_engine_that_needs_longer_than_for_its_first_answer_is_not_lost(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 1)
    with closing(connection.connect(late, timeout_s=60)) as slow:
        assert slow.info()["ServerVersion"]
    monkeypatch.setattr(connection, "ANSWER_S", 0.5)
    with pytest.raises(EngineLost, match="no Docker engine answers"):
        client.Daemon(late)  # now the first answer is late too


class Trickle(socketserver.StreamRequestHandler):
    """An engine behind a proxy that sends a byte of its answer now and then."""

    def handle(self) -> None:
        self.rfile.readline()
        with suppress(OSError):  # the client has gone
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
            for _ in range(100):
                self.wfile.write(b" ")
                time.sleep(0.1)


def test_an_answer_that_never_ends_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.5)
    with Server(str(tmp_path / "socket"), Trickle) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EngineLost, match=r"no whole answer within 0\.5 s"):
            client.Daemon(f"unix://{tmp_path}/socket")
        server.shutdown()


@pytest.mark.parametrize(("finished_at", "duration_s"), [(12.5, 2.5), (9.99, 0.0), (0.0, None)])
def test_a_container_that_ended_before_its_start_by_the_clock_has_no_duration(
    finished_at: float, duration_s: float | None
) -> None:
    state = State(
        status="exited", exit_code=0, oom_killed=False, started_at=10.0, finished_at=finished_at
    )
    assert state.duration_s == duration_s


class Full:
    """A file on a full disk."""

    def write(self, chunk: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def broken() -> Iterator[bytes]:
    """A stream whose connection breaks."""
    yield b"chunk"
    raise requests.ConnectionError("reset")


def test_a_full_disk_is_not_a_lost_engine() -> None:
    with pytest.raises(EngineError, match="cannot be written: No space left") as full:
        streaming.write(iter([b"chunk"]), Full())  # type: ignore[arg-type]
    assert not isinstance(full.value, EngineLost)
    with pytest.raises(EngineLost), open("/dev/null", "wb") as file:  # noqa: PTH123
        streaming.write(broken(), file)


def test_a_stream_that_breaks_off_does_not_end_like_a_complete_one() -> None:
    never = threading.Event()
    assert list(streaming.items_until(never, [1, 2])) == [1, 2]
    with pytest.raises(EngineLost, match="the engine's answer broke off: reset"):
        list(streaming.items_until(never, broken()))


def test_a_docker_context_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with pytest.raises(EngineMisconfigured, match="there is no Docker context 'gone'"):
        client.Daemon()
