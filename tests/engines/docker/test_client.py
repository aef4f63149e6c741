"""What the suite makes of an engine's words; everything else is tested on a real engine."""

from suite.engines.docker.client import State


def test_a_container_that_ended_before_it_began_by_the_engine_s_clocks_ran_no_time() -> None:
    def ran_s(started_at: float, finished_at: float) -> float | None:
        return State(
            status="exited",
            exit_code=0,
            oom_killed=False,
            started_at=started_at,
            finished_at=finished_at,
        ).ran_s

    assert ran_s(10.0, 12.5) == 2.5
    assert ran_s(10.0, 9.99) == 0.0
    assert ran_s(10.0, 0.0) is None
