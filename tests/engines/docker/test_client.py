"""How the client interprets an engine's values; all else is tested on a real engine."""

import errno
from collections.abc import Iterator

import pytest
import requests

from suite.engines.docker import client
from suite.engines.docker.client import State
from suite.engines.errors import EngineLost
from suite.errors import EngineError


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
        client._write(iter([b"chunk"]), Full())  # type: ignore[arg-type]
    assert not isinstance(full.value, EngineLost)
    with pytest.raises(EngineLost), open("/dev/null", "wb") as file:  # noqa: PTH123
        client._write(broken(), file)
