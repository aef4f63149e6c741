"""Faults of the engine itself, with a private engine on a small disk: stop, restart, full disk."""

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
from suite.engines.docker import watch
from suite.engines.docker.client import Daemon
from suite.engines.docker.spec import SESSION
from suite.engines.errors import EngineLost
from suite.engines.recipe import base_image
from suite.errors import EngineError
from tests.conftest import Tiny

pytestmark = pytest.mark.docker
Run = Callable[..., Attempt]
DISK_BYTES = 1200 * 2**20
STOP_TIMEOUT_S = 60


class PrivateEngine:
    """A second engine for these tests, with its data on a disk of a fixed size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            # In its own network namespace: with --bridge=none it removes the other engine's bridge.
            *("unshare", "--net"),
            "dockerd",
            f"--host={self.address}",
            f"--data-root={self.folder}/disk/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/pid",
            "--bridge=none",
            "--iptables=false",
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                Daemon().close()
                return
            except EngineError:
                time.sleep(0.2)
        pytest.fail(
            f"the private engine does not start: {(self.folder / 'log').read_text()[-800:]}"
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a short path and a small disk in it, for the engine's socket and data."""
    if os.geteuid() or not shutil.which("dockerd"):
        pytest.skip("a private engine needs root and dockerd")
    folder = Path("/tmp") / f"dlsuite-test-{os.getpid()}"
    (folder / "disk").mkdir(parents=True)
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, folder / "disk"], check=True)
    yield folder
    for mounted in (folder / "disk", folder / "exec" / "netns" / "default"):
        subprocess.run(["umount", "--lazy", mounted], check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def private(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateEngine]:
    """A private engine with the base image; DOCKER_HOST names it."""
    archive = small_disk / "base.tar"
    if not archive.exists():
        subprocess.run(["docker", "save", "--output", archive, base_image()], check=True)
    engine = PrivateEngine(small_disk)
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    engine.start()
    try:
        subprocess.run(["docker", "load", "--quiet", "--input", archive], check=True)
        yield engine
    finally:
        engine.stop()


def test_a_restart_of_the_engine_fails_only_the_current_run(
    private: PrivateEngine, tiny: Tiny, run: Run, home: Path
) -> None:
    restart = threading.Timer(0.1, lambda: (private.stop(), private.start()))
    with tiny.engine() as engine:
        done = run(engine, "started(); time.sleep(600)", on_event=lambda event: restart.start())
        restart.join()
        assert done.status == "failed" and done.error is not None
        assert done.error.message == "the engine stopped while the worker ran"
        assert [event["event"] for event in done.events] == ["started"]
        labels = {SESSION: engine._session_id, "dlsuite": "trial"}
        assert engine.daemon.containers(labels) == [] and engine.daemon.volumes(labels) == {}


def test_an_engine_that_does_not_return_is_an_error_with_a_hint(
    private: PrivateEngine,
    tiny: Tiny,
    run: Run,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "ENGINE_RETURN_S", 2.0)
    stop = threading.Timer(0.1, private.stop)
    with (
        pytest.raises(EngineLost, match="did not return within 2 s") as caught,
        tiny.engine() as engine,
    ):
        run(engine, "started(); time.sleep(600)", on_event=lambda event: stop.start())
    assert "dlsuite resume" in caught.value.hint


def test_a_worker_reports_a_full_disk_under_its_results(
    private: PrivateEngine, tiny: Tiny, run: Run, home: Path
) -> None:
    """The worker's event reaches standard output, which needs no disk."""
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
    with tiny.engine() as engine:
        done = run(engine, script)
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "[Errno 28] No space left on device"
