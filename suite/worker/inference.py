"""Inference: a model answers the queries of LoadGen.

Inputs lie in host memory and answers are back in host memory: that is what a caller waits for.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlperf_loadgen
import numpy as np

from . import loadgen
from .data import Split
from .interleaving import LEAD_IN_S, Blocks, Turns
from .loadgen import Request
from .loop import LONG_STEP_S, Emit, is_steady
from .proof import CLOSING
from .protocol import Array, Predictor, Trial

OVERHEAD_S = 0.3  # of the test with a null model
LOGGED_ANSWERS = 1000  # about so many answers of the timed queries are compared with the reference
SEARCH_STEPS = 7  # of the bisection in scenario server; the rate is then known to 1 %
SEARCH_S = 2.0  # of each step
SEARCH_QUERIES = 300  # of each step, at least: 99 % are within the bound
STREAMS = ("single_stream", "multi_stream")  # the next query follows the answer
LESS = 0.95  # the share of the rate that is tried where the found one does not hold


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

    def issue(self, query: list[Any]) -> None:
        """Answer the samples of one query."""
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


def parity(trial: Trial, predictor: Predictor, layout: str, emit: Emit) -> None:
    """Answer each sample of the library once, and write `inference.npy` (samples, classes)."""
    inputs = _library(trial, layout)
    responder = Responder(predictor.predict, inputs, trial.batch_size)
    results = Path(trial.paths["results"])
    request = replace(_request(trial), accuracy=True, rate_per_s=1e6)
    outcome = _run(request, responder, results / "loadgen")
    samples, logits = outcome.answers(trial.dtype)
    in_order = np.full((len(inputs), *logits.shape[1:]), np.nan, trial.dtype)
    in_order[samples] = logits
    np.save(results / "inference.npy", in_order)
    emit("answered", samples=len(set(samples.tolist())))


def infer(trial: Trial, predictor: Predictor, layout: str, emit: Emit, turns: Turns | None) -> None:
    """Time the queries of the trial's scenario; write some of their answers to `closing/`.

    Where streams of queries are interleaved, each block of them has a turn. The one query of
    scenario offline, and those of a server, whose times LoadGen draws, have one turn.
    """
    inputs = _library(trial, layout)
    batch = inputs.take(range(trial.batch_size), axis=0, mode="wrap")
    started = time.perf_counter()
    ready = predictor.predict(batch)
    emit("first_inference", duration_s=time.perf_counter() - started)
    call_s = _warm_up(trial, predictor, inputs, emit)
    results = Path(trial.paths["results"])
    _overhead(trial, ready, inputs, results, emit)
    blocks = None
    if turns and trial.scenario in STREAMS:
        # LoadGen takes the time of a query when it calls `issue`: waiting is in no latency.
        lead_in_s = LEAD_IN_S if call_s < LONG_STEP_S else 0.0
        block_s = trial.measure["interleaved_block_s"]
        blocks = Blocks(turns, block_s, lead_in_s, lambda: predictor.predict(batch))
    request = _timed(trial, call_s, interleaved=blocks is not None)
    responder = Responder(predictor.predict, inputs, trial.batch_size, blocks)
    if trial.scenario == "server":
        request = replace(request, rate_per_s=_highest_rate(request, responder, results, emit))
    started_ns = time.perf_counter_ns()
    outcome = _run(request, responder, results / "loadgen")
    duration_s = (time.perf_counter_ns() - started_ns) / 1e9
    emit("inference", **_report(trial, request, outcome, duration_s))
    samples, logits = outcome.answers(trial.dtype)
    folder = results / CLOSING
    folder.mkdir()
    np.save(folder / "answers_samples.npy", samples)
    np.save(folder / "answers_logits.npy", logits)
    emit("answers", samples=len(samples))


def _library(trial: Trial, layout: str) -> Array:
    """The samples that queries take, normalized, in host memory."""
    samples = trial.query_samples or 0
    return Split(trial, "test", layout).take(np.arange(samples))[0]


def _request(trial: Trial) -> Request:
    assert trial.scenario and trial.query_samples
    return Request(
        trial.scenario,
        trial.query_samples,
        trial.batch_size,
        latency_bound_s=trial.latency_bound_s or 1.0,
        seed=trial.seed + trial.repeat,
    )


def _timed(trial: Trial, call_s: float, *, interleaved: bool) -> Request:
    """The request of the timed test, for a model whose call takes so long."""
    measure, per_call = trial.measure, trial.batch_size
    min_s, max_s, least = measure["min_query_s"], measure["max_query_s"], measure["min_queries"]
    if trial.scenario == "offline":
        # One query has all samples. LoadGen cannot end it early, so its size bounds its duration.
        rate = per_call / call_s
        least = max(per_call, min(max(least, rate * min_s), rate * max_s))
        min_s = max_s = 0.0
        samples = least
    else:
        queries = max(1, int(min(max(least, min_s / call_s), max_s / call_s)))
        samples = queries * (per_call if trial.scenario == "multi_stream" else 1)
        if interleaved:
            # LoadGen counts waiting as duration, so the number of queries ends the test.
            least, min_s, max_s = queries, 0.0, 0.0
    return replace(
        _request(trial),
        min_s=min_s,
        max_s=max_s,
        min_queries=int(least),
        call_s=call_s,
        log_share=min(1.0, LOGGED_ANSWERS / samples),
    )


def _warm_up(trial: Trial, predictor: Predictor, inputs: Array, emit: Emit) -> float:
    """Call the model until the duration of a call is steady; return it, in seconds."""
    measure, size = trial.measure, trial.batch_size
    medians: list[float] = []
    calls, total_s, steady = 0, 0.0, False
    while not steady and len(medians) < measure["max_warmup_blocks"]:
        durations: list[float] = []
        block_s = 0.0
        while block_s < measure["block_s"]:
            batch = inputs.take(range(calls * size, (calls + 1) * size), axis=0, mode="wrap")
            started = time.perf_counter()
            predictor.predict(batch)
            durations.append(time.perf_counter() - started)
            block_s += durations[-1]
            calls += 1
        medians.append(statistics.median(durations))
        total_s += block_s
        steady = is_steady(medians)
    emit("warmed", calls=calls, duration_s=total_s, call_s=medians[-1], steady=steady)
    return medians[-1]


def _overhead(trial: Trial, ready: Array, inputs: Array, results: Path, emit: Emit) -> None:
    """Run the scenario with a null model, which returns `ready`; of a server, one query a time."""
    request = _request(trial)
    if trial.scenario == "server":
        request = replace(request, scenario="single_stream")
    calls = 1000
    least = calls * (trial.batch_size if trial.scenario == "offline" else 1)
    request = replace(request, min_queries=least, min_s=0.0, max_s=OVERHEAD_S, call_s=1e-5)
    responder = Responder(lambda batch: ready, inputs, trial.batch_size)
    outcome = _run(request, responder, results / "loadgen-null")
    if trial.scenario == "offline":
        latency_s = (outcome.seconds("result_mean_latency_ns") or 0.0) / calls
    else:
        latency_s = outcome.percentiles_s["50"]
    emit("overhead", latency_s=latency_s)


def _run(request: Request, responder: Responder, folder: Path) -> loadgen.Outcome:
    """Run a test. In scenario server, LoadGen has a thread of its own, and the model this one."""
    if request.scenario == "server":
        return _served(request, responder, folder)
    outcome = loadgen.run(request, responder.issue, folder)
    if responder.error:
        raise responder.error
    return outcome


def _served(request: Request, responder: Responder, folder: Path) -> loadgen.Outcome:
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    found: list[loadgen.Outcome] = []

    def test() -> None:
        try:
            found.append(loadgen.run(request, waiting.put, folder))
        except BaseException as error:
            responder.error = responder.error or error
        finally:
            waiting.put(None)

    thread = threading.Thread(target=test)
    thread.start()
    while (query := waiting.get()) is not None:
        responder.issue(query)
    thread.join()
    if responder.error:
        raise responder.error
    return found[0]


def _highest_rate(request: Request, responder: Responder, results: Path, emit: Emit) -> float:
    """The highest rate of queries, by bisection, at which 99 % of them are within the bound.

    The found rate is confirmed by a test of the full length; where it does not hold, less is tried.
    """
    short = replace(
        request, min_s=SEARCH_S, min_queries=SEARCH_QUERIES, max_s=5 * SEARCH_S, log_share=0.0
    )
    low, high = 0.0, 1 / request.call_s

    def holds(request: Request) -> bool:
        outcome = _run(request, responder, results / "loadgen-search")
        p99_s = outcome.percentiles_s["99"]
        within = p99_s <= request.latency_bound_s
        emit("rate", rate_per_s=request.rate_per_s, p99_s=p99_s, holds=within)
        return within

    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        if holds(replace(short, rate_per_s=middle)):
            low = middle
        else:
            high = middle
    rate = low or high
    while not holds(replace(request, rate_per_s=rate, log_share=0.0)) and rate > high / 2:
        rate *= LESS
    return rate


def _report(
    trial: Trial, request: Request, outcome: loadgen.Outcome, duration_s: float
) -> dict[str, Any]:
    """The values of the event `inference`."""
    values = outcome.values
    queries = int(values["result_query_count"])
    mean_s = outcome.seconds("result_mean_latency_ns") or duration_s
    samples = queries
    if trial.scenario == "offline":
        samples = int(values["effective_min_sample_count"])
        rate = samples / mean_s
    elif trial.scenario == "multi_stream":
        samples = queries * trial.batch_size
        rate = trial.batch_size / mean_s
    elif trial.scenario == "server":
        rate = float(values["result_completed_samples_per_sec"])
    else:
        rate = 1 / mean_s
    latencies = trial.scenario != "offline"
    return {
        "scenario": trial.scenario,
        "loadgen": loadgen.NAME,
        "queries": queries,
        "samples": samples,
        "duration_s": duration_s,
        "samples_per_s": rate,
        "mean_s": mean_s if latencies else None,
        "min_s": outcome.seconds("result_min_latency_ns") if latencies else None,
        "max_s": outcome.seconds("result_max_latency_ns") if latencies else None,
        "percentiles_s": outcome.percentiles_s if latencies else {},
        "early_stopping_s": outcome.early_stopping_s if latencies else {},
        "rate_per_s": request.rate_per_s if trial.scenario == "server" else None,
    }
