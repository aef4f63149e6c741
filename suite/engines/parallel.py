"""Calls that run workers or build environments at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from suite.engines.base import Engine

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(
    engine: Engine, call: Callable[[T], R], items: Iterable[T], *, at_once: int
) -> list[R]:
    """The result of `call` for each item, in order; at most `at_once` calls run at a time.

    A failure or an interruption of one call ends all work of the engine.
    """
    if at_once == 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            engine.stop()
            raise
    return [future.result() for future in futures]
