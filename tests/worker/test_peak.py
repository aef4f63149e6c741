"""The measurement of the hardware peak, with numpy instead of a framework."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.worker import peak
from suite.worker.protocol import Trial


def test_each_operation_is_measured_in_blocks(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = replace(trial, precisions=["float32", "bfloat16"])
    calls: list[str] = []

    def operations(
        of: Trial, precisions: Sequence[str], size: int, values: int
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        assert (of, tuple(precisions), size, values) == (trial, ("float32", "bfloat16"), 64, 1000)
        matrix = np.ones((size, size), np.float32)
        yield "matmul_float32", partial(np.matmul, matrix, matrix)
        yield "copy", np.ones(values, np.float32).copy

    module = SimpleNamespace(operations=operations, synchronize=lambda: calls.append("wait"))
    monkeypatch.setattr(peak, "load_peak", lambda framework: module)
    monkeypatch.setattr(peak, "SIZE", {"cpu": 64})
    monkeypatch.setattr(peak, "COPY_BYTES", {"cpu": 4000})
    monkeypatch.setattr(peak, "BLOCK_S", 0.001)
    events: list[dict[str, Any]] = []
    peak.measure(trial, lambda event, **values: events.append({"event": event, **values}))
    assert [(each["event"], each["operation"]) for each in events] == [
        ("peak", "matmul_float32"),
        ("peak", "copy"),
    ]
    assert all(each["work_per_s"] > 0 for each in events)
    assert len(calls) == 2 * 2 * (2 + peak.BLOCKS)  # before and after each block


def test_the_fastest_block_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([0.2, 0.025, *[0.4, 0.2, 0.3, 0.4, 0.5, 0.4, 0.4, 0.4]])
    monkeypatch.setattr(peak, "_block", lambda operation, wait, calls: next(durations))
    operation = peak.Operation(call=lambda: None, work=10)
    # A call takes 0.025 s: each block has two calls, and the fastest block takes 0.2 s.
    assert peak._best(operation, lambda: None) == pytest.approx(10 * 2 / 0.2)


def test_a_long_operation_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([20.0])
    monkeypatch.setattr(peak, "MAX_OPERATION_S", -1)
    monkeypatch.setattr(peak, "_block", lambda operation, wait, calls: next(durations))
    operation = peak.Operation(call=lambda: None, work=40)
    assert peak._best(operation, lambda: None) == pytest.approx(2)
