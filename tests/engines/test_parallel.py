"""Calls at the same time, with an engine that only records that it was stopped."""

import threading

import pytest

from suite.engines.parallel import in_parallel
from suite.engines.venv.engine import VenvEngine


class Stoppable(VenvEngine):
    """An engine that knows whether it was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def test_results_are_in_the_order_of_the_items() -> None:
    both_run = threading.Barrier(2, timeout=10)

    def call(item: int) -> int:
        both_run.wait()
        return -item

    assert in_parallel(Stoppable(), call, [1, 2, 3, 4], at_once=2) == [-1, -2, -3, -4]
    assert in_parallel(Stoppable(), abs, [-1, 2], at_once=1) == [1, 2]


def test_a_failure_stops_the_engine_and_starts_nothing_more() -> None:
    engine, started = Stoppable(), []

    def call(item: int) -> None:
        started.append(item)
        if item == 1:
            raise ValueError("failed")
        assert engine.stopped.wait(10)

    with pytest.raises(ValueError, match="failed"):
        in_parallel(engine, call, range(5), at_once=2)
    assert len(started) <= 3
