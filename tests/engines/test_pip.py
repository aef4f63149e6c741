"""Which servers count as a package index."""

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator

import pytest

from suite.engines import pip
from suite.web import Limits

PAGES = {
    "/simple": b"<!DOCTYPE html><html><body><a href='torch/'>torch</a>",
    "/form": b"<html><form action='/login'><a href='/forgotten'>forgotten?</a></form>",
    "/search": b"<html><meta name='pypi:repository-version' content='1.0'><form><a href='x'>",
    "/empty_page": b"<html><body>Welcome to the network</body>",
    "/json": b'{"meta": {"api-version": "1.0"}, "projects": []}',
    "/large": b"<html>" + b"<a href='torch/'>torch</a>" * 40_000,
}


class Index(http.server.BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/simple")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has read enough
            if self.path == "/trickle":
                for _ in range(50):
                    self.wfile.write(b"<")
                    time.sleep(0.02)
            self.wfile.write(PAGES.get(self.path, b""))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize("path", ["simple", "search", "json", "large"])
def test_an_index_answers_though_it_refuses_head(server: str, path: str) -> None:
    assert pip.answers(f"{server}/{path}")


@pytest.mark.parametrize("path", ["form", "empty_page", "moved"])
def test_a_login_page_is_no_answer(server: str, path: str) -> None:
    assert not pip.answers(f"{server}/{path}")


def test_a_byte_now_and_then_is_no_answer(server: str) -> None:
    assert not pip.answers(f"{server}/trickle", Limits(window_s=5, whole_s=0.1))
