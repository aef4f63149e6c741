"""What a registry says of an image, with a server of this test in place of the registry."""

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from suite.engines.attempt import free_port
from suite.engines.docker import lookup
from suite.errors import EngineError, UsageError

MANIFEST = json.dumps({"schemaVersion": 2, "config": {"digest": "sha256:abc"}}).encode()


@dataclass
class Registry:
    """A registry with manifests by path; `login` is its challenge, `asked` what was asked."""

    address: str
    manifests: dict[str, bytes] = field(default_factory=dict)
    login: str | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if path.startswith("/token?"):
            return 200, {}, b'{"token": "of everybody"}'
        if self.login and authorization != "Bearer of everybody":
            return 401, {"WWW-Authenticate": self.login}, b""
        found = self.manifests.get(path)
        return (404, {}, b"") if found is None else (200, {}, found)


@pytest.fixture
def registry() -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, headers, body = made.answer(self.path, self.headers.get("Authorization"))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Registry(f"127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    yield made
    server.shutdown()
    server.server_close()


def test_an_image_has_the_digest_of_its_manifest_and_the_id_of_its_configuration(
    registry: Registry,
) -> None:
    registry.manifests["/v2/lab/dlsuite/jax/manifests/cpu-1"] = MANIFEST
    challenge = (
        f'Bearer realm="http://{registry.address}/token",service="s",scope="repository:lab:pull"'
    )
    for login in (None, challenge):
        registry.login = login
        found = lookup.image(f"{registry.address}/lab/dlsuite/jax:cpu-1")
        assert found and found.image_id == "sha256:abc"
        digest = hashlib.sha256(MANIFEST).hexdigest()
        assert found.reference == f"{registry.address}/lab/dlsuite/jax@sha256:{digest}"
        assert lookup.image(f"{registry.address}/lab/dlsuite/jax:cpu-2") is None
    assert "/token?service=s&scope=repository%3Alab%3Apull" in registry.asked


def test_a_registry_that_asks_for_a_login_is_refused(registry: Registry) -> None:
    registry.login = 'Basic realm="lab"'
    with pytest.raises(EngineError, match="is not readable without a login: HTTP 401"):
        lookup.image(f"{registry.address}/lab/jax:cpu-1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"manifests": []}', b'{"config": 1}'])
def test_what_is_no_manifest_of_an_image_is_refused(registry: Registry, body: bytes) -> None:
    registry.manifests["/v2/jax/manifests/cpu"] = body
    with pytest.raises(EngineError, match="is not the manifest of one image"):
        lookup.image(f"{registry.address}/jax:cpu")


def test_without_a_registry_there_is_a_reason() -> None:
    with pytest.raises(EngineError, match=r"is not readable: .*refused"):
        lookup.image(f"127.0.0.1:{free_port()}/lab/jax:cpu-1")
    with pytest.raises(UsageError, match="'lab' is no registry"):
        lookup.image("lab/jax:cpu-1")
