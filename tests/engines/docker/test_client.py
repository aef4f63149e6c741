"""How the client interprets an engine's values; all else is tested on a real engine."""

import pytest

from suite.engines.docker.client import State


@pytest.mark.parametrize(("finished_at", "duration_s"), [(12.5, 2.5), (9.99, 0.0), (0.0, None)])
def test_a_container_that_ended_before_its_start_by_the_clock_has_no_duration(
    finished_at: float, duration_s: float | None
) -> None:
    state = State(
        status="exited", exit_code=0, oom_killed=False, started_at=10.0, finished_at=finished_at
    )
    assert state.duration_s == duration_s
