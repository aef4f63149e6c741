"""Fixtures: a home of one's own, a small dataset, and workers made to misbehave.

Tests that need a framework use the environments of `make bench`, building them where they are not
there yet; all others get an empty home.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from suite import manifest
from suite.engines.base import Event, Prepared, Say
from suite.engines.venv import VenvEngine
from suite.manifest import DatasetManifest, FrameworkManifest
from suite.plan import Plan, Run, expand
from suite.records import Record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    monkeypatch.setenv("DLSUITE_HOME", str(place))
    return place


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which `folder` is served on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Silent:
    """Tells nothing."""

    def say(self, text: str) -> None: ...

    def planned(self, plan: Plan) -> None: ...

    def event(self, run: Run, event: Event) -> None: ...

    def done(self, run: Run, record: Record) -> None: ...


class ScriptEngine(VenvEngine):
    """The real engine, running a script of the test's as the worker."""

    def __init__(self, worker: Path) -> None:
        super().__init__(worker)

    def prepare(self, manifest: FrameworkManifest, say: Say) -> Prepared:
        return Prepared(framework=manifest.name, python=Path(sys.executable), lock_sha256="0" * 64)


@pytest.fixture
def script_engine(tmp_path: Path, home: Path) -> Callable[[str], ScriptEngine]:
    """Makes an engine whose worker is the given Python text; `results` and `emit` are defined."""

    def make(text: str) -> ScriptEngine:
        worker = tmp_path / "script"
        worker.mkdir()
        prologue = """
            import json, os, pathlib, signal, subprocess, sys, time
            trial = json.loads((pathlib.Path(sys.argv[1]) / "trial.json").read_text())
            results = pathlib.Path(trial["paths"]["results"])
            def emit(event, **values):
                values = {"event": event, "monotonic_ns": time.monotonic_ns(), **values}
                line = json.dumps(values)
                print(line, flush=True)
                with (results / "events.jsonl").open("a") as file:
                    file.write(line + "\\n")
            def started():
                emit("started", import_s=0.1, framework_version="1", versions={})
        """
        body = textwrap.dedent(prologue) + textwrap.dedent(text)
        (worker / "__main__.py").write_text(body, encoding="utf-8")
        (worker / "__init__.py").touch()
        return ScriptEngine(worker)

    return make


@pytest.fixture
def quick() -> Callable[..., Plan]:
    """Plans the quick suite, for some frameworks and as many repeats as wanted."""

    def plan(*frameworks: str, repeats: int = 1) -> Plan:
        known = {name: manifest.framework(name) for name in manifest.names("framework")}
        return expand(manifest.suite("quick"), known, only=frameworks, repeats=repeats)

    return plan


def idx(values: np.ndarray) -> bytes:
    """`values` as an IDX file of unsigned bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


@pytest.fixture
def digits(tmp_path: Path) -> tuple[DatasetManifest, Path]:
    """A dataset in MNIST's form, 200 and 40 samples, and the folder of its raw files."""
    real = manifest.dataset("mnist")
    samples = {"train": 200, "test": 40}
    raw = tmp_path / "raw"
    raw.mkdir()
    generator = np.random.default_rng(7)
    files = {}
    for role, file in real.files.items():
        split, kind = role.split("_")
        shape = (samples[split], 28, 28) if kind == "images" else (samples[split],)
        content = idx(generator.integers(0, 10 if kind == "labels" else 256, shape))
        (raw / file.name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        files[role] = file.model_copy(update={"sha256": digest})
    return real.model_copy(update={"samples": samples, "files": files, "sources": ()}), raw
