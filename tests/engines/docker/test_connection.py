"""Addresses and files of Docker that are wrong, and servers that are no engine."""

from __future__ import annotations

import hashlib
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from suite.engines.docker.client import Daemon
from suite.engines.errors import EngineLost, EngineMisconfigured
from suite.errors import EngineError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of config.json and of the contexts; its path is short enough for a socket."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def context(folder: Path, meta: object) -> None:
    """Make `mine` the current context, described by `meta`."""
    place = folder / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    (folder / "config.json").write_text('{"currentContext": "mine"}')


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:99999", "tcp://127.0.0.1:port", "tcp://[::1"])
def test_an_address_that_is_none_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(EngineMisconfigured) as caught:
        Daemon()
    assert address in str(caught.value)
    with pytest.raises(EngineMisconfigured):
        Daemon(address)


@pytest.mark.parametrize(
    "content",
    [
        *("[]", "5", '{"currentContext": 5}', '{"proxies": {"default": 5}}'),
        *('{"auths": {"x": 5}}', '{"auths": {"x": {"auth": "%%%"}}}'),
        # Only an engine that answers is asked with credentials.
        pytest.param('{"credHelpers": [1]}', marks=pytest.mark.docker),
    ],
)
def test_a_file_with_values_of_another_type_is_named(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(EngineMisconfigured, match=str(folder / "config.json")):
        Daemon()


@pytest.mark.parametrize("meta", ["{", [], {"Name": "mine"}, {"Name": "mine", "Endpoints": {}}])
def test_a_damaged_context_is_named_with_the_file_that_names_it(folder: Path, meta: object) -> None:
    context(folder, meta)
    with pytest.raises(EngineMisconfigured, match=str(folder / "config.json")):
        Daemon()


def test_the_socket_of_a_context_is_named(folder: Path) -> None:
    host = f"unix://{folder}/gone"
    endpoint = {"docker": {"Host": host, "SkipTLSVerify": False}}
    context(folder, {"Name": "mine", "Metadata": {}, "Endpoints": endpoint})
    with pytest.raises(EngineLost, match=f"there is no socket at {host}"):
        Daemon()


def test_a_missing_ssh_is_no_missing_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(EngineLost, match="ssh is not on PATH"):
        Daemon("ssh://host")


@contextmanager
def server(folder: Path, info: bytes, status: str = "200 OK") -> Iterator[str]:
    """The address of a server that knows a version, and describes itself by `info`."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            path = self.rfile.readline().split()[1]
            while self.rfile.readline().strip():
                pass
            version = path.endswith(b"/version")
            body = b'{"ApiVersion": "1.41"}' if version else info
            line = "200 OK" if version else status
            head = f"HTTP/1.0 {line}\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)

    with socketserver.UnixStreamServer(f"{folder}/s", Handler) as served:
        threading.Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
        yield f"unix://{folder}/s"
        served.shutdown()


@pytest.mark.parametrize(
    "info", [b"{}", b"[]", b'{"NCPU": 0, "MemTotal": 1}', b'{"NCPU": "2", "MemTotal": null}']
)
def test_a_server_that_is_no_engine_is_no_engine(folder: Path, info: bytes) -> None:
    with server(folder, info) as address, pytest.raises(EngineLost, match="is no Docker engine"):
        Daemon(address)


def test_a_page_of_a_proxy_is_one_line(folder: Path) -> None:
    page = b"<html>\n<b>Service\nUnavailable</b>\n</html>"
    with (
        server(folder, page, "503 Unavailable") as address,
        pytest.raises(EngineError, match="refused: <html> <b>Service Unavailable"),
    ):
        Daemon(address)
