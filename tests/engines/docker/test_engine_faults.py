"""Faults of the engine itself: a second, private one on a small disk, stopped, restarted, full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.engines.attempt import Attempt
from suite.engines.base import EngineLost
from suite.engines.docker import watch
from suite.engines.docker.client import Daemon
from suite.engines.docker.images import base_image
from suite.engines.docker.spec import SESSION
from suite.errors import EngineError
from suite.protocol.events import Event
from tests.conftest import Tiny

pytestmark = pytest.mark.docker
Run = Callable[..., Attempt]
DISK_BYTES = 1200 * 2**20
SHIM_DIES_S = 60


class PrivateEngine:
    """An engine of the test's own, with its data on a file of a fixed size."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.address = f"unix://{place}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            # In a network of its own: told to have no bridge, it would remove another engine's.
            *("unshare", "--net"),
            "dockerd",
            f"--host={self.address}",
            f"--data-root={self.place}/disk/data",
            f"--exec-root={self.place}/exec",
            f"--pidfile={self.place}/pid",
            "--bridge=none",
            "--iptables=false",
        ]
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                Daemon().close()
                return
            except EngineError:
                time.sleep(0.2)
        pytest.fail(f"the private engine does not start: {(self.place / 'log').read_text()[-800:]}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(SHIM_DIES_S)
            self._process = None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short path with a small disk; the engine's socket is there."""
    if os.geteuid() or not shutil.which("dockerd"):
        pytest.skip("a private engine needs root and dockerd")
    place = Path("/tmp") / f"dlsuite-test-{os.getpid()}"
    (place / "disk").mkdir(parents=True)
    image = place / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place / "disk"], check=True)
    yield place
    for mounted in (place / "disk", place / "exec" / "netns" / "default"):
        subprocess.run(["umount", "--lazy", mounted], check=False)
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def private(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateEngine]:
    base = base_image()
    packed = place / "base.tar"
    if not packed.exists():
        subprocess.run(["docker", "save", "--output", packed, base], check=True)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}/docker.sock")
    engine = PrivateEngine(place)
    engine.start()
    try:
        subprocess.run(["docker", "load", "--quiet", "--input", packed], check=True)
        yield engine
    finally:
        engine.stop()


def test_an_engine_that_stops_and_comes_back_costs_only_the_run_under_way(
    private: PrivateEngine, tiny: Tiny, run: Run, home: Path
) -> None:
    restart = threading.Timer(0.1, lambda: (private.stop(), private.start()))
    with tiny.engine() as engine:
        done = run(engine, "started(); time.sleep(600)", on_event=lambda event: restart.start())
        restart.join()
        assert done.status == "failed" and done.error is not None
        assert done.error.message == "the engine stopped while the worker was at work"
        assert [event["event"] for event in done.events] == ["started"]
        labels = {SESSION: engine._owner, "dlsuite": "trial"}
        assert engine.daemon.containers(labels) == [] and engine.daemon.volumes(labels) == {}


def test_an_engine_that_stays_away_ends_the_orchestrator_in_words(
    private: PrivateEngine,
    tiny: Tiny,
    run: Run,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "ENGINE_RETURN_S", 2.0)
    stop = threading.Timer(0.1, private.stop)
    with (
        pytest.raises(EngineLost, match="was not back after 2 s") as caught,
        tiny.engine() as engine,
    ):
        run(engine, "started(); time.sleep(600)", on_event=lambda event: stop.start())
    assert "dlsuite resume" in caught.value.hint


def test_a_full_disk_under_the_results_is_told_by_the_worker(
    private: PrivateEngine, tiny: Tiny, run: Run, home: Path
) -> None:
    """The worker's event goes out on its standard output, where no disk is needed."""
    script = """
started()
try:
    with (results / "big.bin").open("wb") as file:
        while True:
            file.write(bytes(2**20))
            file.flush()
except OSError as error:
    try:
        emit("failed", error_class="OSError", message=str(error))
    except OSError:
        sys.exit(1)
sys.exit(1)
"""
    heard: list[Event] = []
    with tiny.engine() as engine:
        done = run(engine, script, on_event=heard.append)
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "[Errno 28] No space left on device"
