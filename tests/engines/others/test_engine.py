"""Engines that differ from the usual one (.ci/other-engines): limits, trials, and their ends."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.engines.attempt import Attempt
from suite.engines.docker.engine import DockerEngine
from suite.engines.settings import Settings
from tests.conftest import Tiny

pytestmark = [pytest.mark.docker, pytest.mark.verify]
NAMES = ("rootless", "podman")
MEMORY_BYTES = 2**28


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest, tiny: Tiny, home: Path) -> Iterator[DockerEngine]:
    engines = os.environ.get("DLSUITE_OTHER_ENGINES", "")
    addresses = dict(each.split("=", 1) for each in engines.split())
    if request.param not in addresses:
        if os.environ.get("DLSUITE_REQUIRE_OTHER_ENGINES"):
            pytest.fail(f"DLSUITE_REQUIRE_OTHER_ENGINES is set, and {request.param} is missing")
        pytest.skip(f"no engine {request.param}: source .ci/other-engines; other_engines")
    with DockerEngine(
        uuid.uuid4().hex[:12],
        Settings(memory_bytes=MEMORY_BYTES),
        worker=tiny.worker,
        locks=tiny.locks,
        address=addresses[request.param],
    ) as entered:
        yield entered


def test_a_trial_runs_and_its_files_come_back(
    engine: DockerEngine, run: Callable[..., Attempt]
) -> None:
    script = """
emit("seen", data=os.listdir("/data"), uid=os.getuid())
(results / "step00_loss.npy").write_bytes(b"x" * 1000)
emit("finished")
"""
    attempt = run(engine, script)
    assert attempt.status == "ok", attempt.error
    seen = attempt.events[0]
    assert "train_inputs.npy" in seen["data"] and seen["uid"] == 10001


def test_the_record_has_the_limit_of_memory_exactly_where_it_is_in_force(
    engine: DockerEngine, run: Callable[..., Attempt]
) -> None:
    attempt = run(engine, f'started(); x = bytearray({2 * MEMORY_BYTES}); emit("finished")')
    recorded = engine.host["limits"]["memory_bytes"]
    assert recorded == (None if attempt.status == "ok" else MEMORY_BYTES), attempt.error


def test_a_worker_past_its_deadline_is_stopped(
    engine: DockerEngine, run: Callable[..., Attempt]
) -> None:
    attempt = run(engine, "started(); import time; time.sleep(60)", 5)
    assert attempt.status == "timeout"
