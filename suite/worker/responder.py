"""Answers the queries of LoadGen by calls of a model."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlperf_loadgen

from . import loadgen
from .loadgen import Request
from .protocol import Array


class Responder:
    """Answers queries by calls of `predict` with `batch_size` samples of the library each.

    A query of fewer samples is filled with its last one, and the result is cut. An exception cannot
    pass through LoadGen: it is kept in `error`, and the remaining queries get empty answers.
    """

    def __init__(
        self,
        predict: Callable[[Array], Array],
        inputs: Array,
        batch_size: int,
        after_query: Callable[[], None] | None = None,
    ) -> None:
        self._predict = predict
        self._inputs = inputs
        self._batch_size = batch_size
        self._after_query = after_query
        self._singles = [inputs[number : number + 1] for number in range(len(inputs))]
        self.error: BaseException | None = None
        # When the first query of the last test came, and when its last one was answered.
        self.first_ns = self.last_ns = 0

    def issue(self, query: list[Any]) -> None:
        """Answer the samples of one query."""
        self.first_ns = self.first_ns or time.monotonic_ns()
        self._issue(query)
        self.last_ns = time.monotonic_ns()

    def _issue(self, query: list[Any]) -> None:
        if self.error:
            self._give_up(query)
            return
        try:
            if self._batch_size == 1:
                for sample in query:
                    self._respond([sample], self._predict(self._singles[sample.index]))
            else:
                for first in range(0, len(query), self._batch_size):
                    self._answer(query[first : first + self._batch_size])
            if self._after_query:
                self._after_query()
        except BaseException as error:
            self.error = error
            self._give_up(query)

    def run(self, request: Request, folder: Path) -> loadgen.Outcome:
        """Run a test of LoadGen, with its files in `folder`. Raise the error of a call.

        In scenario server, LoadGen has a thread of its own, and the model this one.
        """
        self.first_ns = 0
        try:
            if request.scenario == "server":
                return self._served(request, folder)
            return loadgen.run(request, self.issue, folder)
        finally:
            if self.error:
                raise self.error

    def _served(self, request: Request, folder: Path) -> loadgen.Outcome:
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with ThreadPoolExecutor(max_workers=1) as executor:
            test = executor.submit(loadgen.run, request, waiting.put, folder)
            test.add_done_callback(lambda _: waiting.put(None))
            while (query := waiting.get()) is not None:
                self.issue(query)
            return test.result()

    def _answer(self, samples: list[Any]) -> None:
        chosen = [sample.index for sample in samples]
        chosen += chosen[-1:] * (self._batch_size - len(chosen))
        self._respond(samples, self._predict(self._inputs.take(chosen, axis=0)))

    def _respond(self, samples: list[Any], logits: Array) -> None:
        address, size = logits.ctypes.data, logits.nbytes // len(logits)
        mlperf_loadgen.QuerySamplesComplete(
            [
                mlperf_loadgen.QuerySampleResponse(sample.id, address + number * size, size)
                for number, sample in enumerate(samples)
            ]
        )

    def _give_up(self, query: list[Any]) -> None:
        mlperf_loadgen.QuerySamplesComplete(
            [mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0) for sample in query]
        )
