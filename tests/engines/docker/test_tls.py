"""An engine that is reached by TLS: a TLS server before the engine's socket, with real keys."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from suite.engines.docker.client import Daemon
from suite.engines.errors import EngineMisconfigured
from suite.errors import EngineError

ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, cert.pem and key.pem: one certificate, which signs itself."""
    folder = tmp_path_factory.mktemp("keys")
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    return folder


@pytest.fixture
def address(keys: Path) -> Iterator[str]:
    """A TCP address that asks for a certificate, and forwards to the engine's socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    context.load_verify_locations(keys / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, context), daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def serve(server: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError):
        while True:
            plain, _ = server.accept()
            threading.Thread(target=forward, args=(plain, context), daemon=True).start()


def forward(plain: socket.socket, context: ssl.SSLContext) -> None:
    """One request after the other: each is answered before the next."""
    with (
        suppress(OSError),
        context.wrap_socket(plain, server_side=True) as client,
        socket.socket(socket.AF_UNIX) as engine,
    ):
        engine.connect(ENGINE)
        while request := client.recv(2**16):
            engine.sendall(request)
            client.sendall(engine.recv(2**20))


@pytest.fixture
def settings(
    address: str, keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> pytest.MonkeyPatch:
    monkeypatch.setenv("HOME", str(tmp_path))  # no ~/.docker
    monkeypatch.setenv("DOCKER_HOST", address)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(keys))
    return monkeypatch


@pytest.mark.docker
def test_an_engine_is_reached_by_tls(settings: pytest.MonkeyPatch) -> None:
    with closing(Daemon()) as daemon:
        assert daemon.info["ServerVersion"]


def test_a_certificate_that_nobody_signed_is_refused(
    settings: pytest.MonkeyPatch, keys: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(keys, other)
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"]
    subprocess.run(
        [*command, "-keyout", tmp_path / "key.pem", "-out", other / "ca.pem"],
        check=True,
        capture_output=True,
    )
    settings.setenv("DOCKER_CERT_PATH", str(other))
    with pytest.raises(EngineMisconfigured, match=r"TLS to the engine fails: .*verify failed"):
        Daemon()


def test_keys_that_are_missing_are_named(settings: pytest.MonkeyPatch) -> None:
    settings.delenv("DOCKER_CERT_PATH")
    with pytest.raises(EngineMisconfigured, match="TLS to the engine is not set up") as caught:
        Daemon()
    assert "DOCKER_CERT_PATH" in caught.value.hint


def test_an_engine_that_wants_tls_is_not_asked_without_it(settings: pytest.MonkeyPatch) -> None:
    settings.delenv("DOCKER_TLS_VERIFY")
    settings.delenv("DOCKER_CERT_PATH")
    with pytest.raises(EngineError, match="no Docker engine answers"):
        Daemon()
