"""The measuring of a limit with numpy in a framework's place."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.worker import peak
from suite.worker.protocol import Trial


def test_each_operation_is_measured_at_its_best(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def operations(
        of: Trial, precisions: Sequence[str], size: int, values: int
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        assert (of, tuple(precisions), size, values) == (trial, ("float32", "bfloat16"), 64, 1000)
        matrix = np.ones((size, size), np.float32)
        yield "matmul_float32", partial(np.matmul, matrix, matrix)
        yield "copy", np.ones(values, np.float32).copy

    module = SimpleNamespace(operations=operations, synchronize=lambda: calls.append("wait"))
    monkeypatch.setattr(limit, "load_limit", lambda framework: module)
    monkeypatch.setattr(limit, "SIZE", {"cpu": 64})
    monkeypatch.setattr(limit, "COPY_BYTES", {"cpu": 4000})
    monkeypatch.setattr(limit, "BLOCK_S", 0.001)
    said: list[dict[str, Any]] = []
    peak.measure(trial, lambda event, **values: said.append({"event": event, **values}))
    assert [(each["event"], each["operation"]) for each in said] == [
        ("limit", "matmul_float32"),
        ("limit", "copy"),
    ]
    assert all(each["work_per_s"] > 0 for each in said)
    assert len(calls) == 2 * 2 * (2 + limit.BLOCKS)  # before and after each block


def test_the_fastest_block_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([0.2, 0.05, *[0.4, 0.2, 0.3, 0.4, 0.5, 0.4, 0.4, 0.4]])
    monkeypatch.setattr(limit, "_block", lambda operation, wait, calls: next(durations))
    operation = limit.Operation(call=lambda: None, work=10)
    # 0.05 s a call: two calls in each block, the fastest in 0.2 s.
    assert limit._best(operation, lambda: None) == pytest.approx(10 * 2 / 0.2)


def test_what_takes_long_is_not_done_often(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([20.0])
    monkeypatch.setattr(limit, "ENOUGH_S", -1)
    monkeypatch.setattr(limit, "_block", lambda operation, wait, calls: next(durations))
    operation = limit.Operation(call=lambda: None, work=40)
    assert limit._best(operation, lambda: None) == pytest.approx(2)
