"""Servers that are slow, silent, end early, lead in circles or show a page: real ones, here."""

from __future__ import annotations

import http.server
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from suite.web import Limits, Stream, Unreadable, web_page

QUICK = Limits(wait_s=0.2, window_s=0.1, least_bytes_per_s=1000, whole_s=5, progress_s=0.02)


class Server(http.server.BaseHTTPRequestHandler):
    """Each path misbehaves in its own way."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None: ...

    def do_HEAD(self) -> None:
        self.send_error(405)

    def do_GET(self) -> None:
        self.close_connection = True
        getattr(self, self.path.strip("/"))()

    def head(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def whole(self) -> None:
        self.head(500_000)
        self.wfile.write(bytes(500_000))

    def trickle(self) -> None:
        self.head(100)
        self._each_byte(b"x" * 100)

    def trickled_head(self) -> None:
        self._each_byte(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100)

    def paced(self) -> None:
        self.head(100_000)
        for _ in range(100):
            self.wfile.write(bytes(1000))
            time.sleep(0.003)

    def _each_byte(self, content: bytes) -> None:
        try:
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            pass  # the client has gone, as it should

    def short(self) -> None:
        self.head(1000)
        self.wfile.write(bytes(10))

    def short_chunk(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nabcde\r\n9\r\nab")

    def silent(self) -> None:
        self.head(1000)
        time.sleep(0.4)

    def circle(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/circle")
        self.end_headers()

    def elsewhere(self) -> None:
        self.send_response(302)
        self.send_header("Location", "mailto:nobody")
        self.end_headers()

    def login(self) -> None:
        self.send_error(511)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def read(url: str, limits: Limits = QUICK) -> bytes:
    with Stream(url, limits=limits) as stream:
        return b"".join(stream)


def test_a_whole_body(server: str) -> None:
    assert read(f"{server}/whole") == bytes(500_000)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("trickle", r"too slow: \d bytes in 0.1\d* s, 1\d\d are the least"),
        ("trickled_head", r"too slow: 0 bytes"),
        ("short", r"ended after 10 of 1,000 bytes"),
        ("short_chunk", r"ended in the middle"),
        ("circle", r"HTTP 302 .*infinite loop"),
        ("elsewhere", r"HTTP 302 .*mailto:nobody"),
        ("login", r"HTTP 511 Network Authentication Required"),
    ],
)
def test_the_reason_is_one_line(server: str, path: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        read(f"{server}/{path}")
    assert "\n" not in str(caught.value)


def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # keeps the proxies of its first use
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:1/")
    with (
        pytest.raises(Unreadable, match=r"refused \(through the proxy 127\.0\.0\.1:1\)$"),
        Stream("http://example.invalid/file", limits=QUICK) as stream,
    ):
        list(stream)


def test_a_server_that_stops_ends_at_the_limit_of_a_wait(server: str) -> None:
    with pytest.raises(Unreadable, match="timed out"):
        read(f"{server}/silent", Limits(wait_s=0.1, window_s=5))


def test_a_server_that_is_fast_enough_ends_at_the_whole_limit(server: str) -> None:
    limits = Limits(window_s=0.05, least_bytes_per_s=1000, whole_s=0.12)
    with pytest.raises(Unreadable, match=r"at its limit of time, after [\d,]+ of 100,000 bytes"):
        read(f"{server}/paced", limits)


def test_the_limit_holds_where_a_call_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up a name has no timeout of its own."""
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: ended.wait(10))
    with pytest.raises(Unreadable, match="limit of time, after 0 bytes"):
        read("http://nowhere.invalid/file", Limits(whole_s=0.1))
    ended.set()


def test_progress_says_how_much_of_how_much(server: str) -> None:
    reports: list[tuple[int, int | None]] = []
    limits = Limits(progress_s=0.05)
    with Stream(
        f"{server}/paced", limits=limits, progress=lambda *each: reports.append(each)
    ) as stream:
        assert len(b"".join(stream)) == 100_000
    assert len(reports) >= 3
    assert reports == sorted(reports) and {length for _, length in reports} <= {None, 100_000}


def test_nothing_reads_on_after_the_end(server: str) -> None:
    with Stream(f"{server}/paced", limits=Limits()) as stream:
        next(iter(stream))
    for thread in threading.enumerate():
        if thread.name == f"reads {server}/paced":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("start", "title"),
    [
        (b"<!DOCTYPE html><title>Log\n in</title>", "Log in"),
        (b"\xef\xbb\xbf\n <HTML><body>", "untitled"),
        (b"\x1f\x8b\x08<html>", None),
        (b"<html5lib is a word", None),
        (b"", None),
    ],
)
def test_a_web_page_is_known_by_its_beginning(start: bytes, title: str | None) -> None:
    assert web_page(start) == title
