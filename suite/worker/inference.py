"""Inference: a model answers the queries of LoadGen.

Inputs lie in host memory and answers are back in host memory: that is what a caller waits for.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import disturbance, loadgen, server_rate
from .data import Split
from .interleaving import LEAD_IN_S, Blocks, Turns
from .loadgen import Request
from .loop import LONG_STEP_S, Emit, is_steady
from .proof import CLOSING
from .protocol import Array, Predictor, Trial
from .responder import Responder

OVERHEAD_S = 0.3  # of the test with a null model
LOGGED_ANSWERS = 1000  # about so many answers of the timed queries are compared with the reference
STREAMS = ("single_stream", "multi_stream")  # the next query follows the answer


def parity(trial: Trial, predictor: Predictor, layout: str, emit: Emit) -> None:
    """Answer each sample of the library once, and write `inference.npy` (samples, classes)."""
    inputs = _library(trial, layout)
    responder = Responder(predictor.predict, inputs, trial.batch_size)
    results = Path(trial.paths["results"])
    request = replace(_request(trial), accuracy=True, rate_per_s=1e6)
    outcome = responder.run(request, results / "loadgen")
    samples, logits = outcome.answers(trial.dtype)
    in_order = np.full((len(inputs), *logits.shape[1:]), np.nan, trial.dtype)
    in_order[samples] = logits
    np.save(results / "inference.npy", in_order)
    emit("answered", samples=len(set(samples.tolist())))


def infer(
    trial: Trial,
    predictor: Predictor,
    layout: str,
    emit: Emit,
    turns: Turns | None,
    report_memory: Callable[[], None],
) -> None:
    """Time the queries of the trial's scenario; write some of their answers to `closing/`.

    `report_memory` is called after warm-up: later, the process also has LoadGen's queries, hundreds
    of bytes each, which are the more the faster the model is.

    Where streams of queries are interleaved, each block of them has a turn. The one query of
    scenario offline, and those of a server, whose times LoadGen draws, have one turn.
    """
    inputs = _library(trial, layout)
    batch = inputs.take(range(trial.batch_size), axis=0, mode="wrap")
    started = time.perf_counter()
    ready = predictor.predict(batch)
    emit("first_inference", duration_s=time.perf_counter() - started)
    call_s = _warm_up(trial, predictor, inputs, emit)
    report_memory()
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
    meter = disturbance.Meter(trial.cpus)
    before = meter.read()
    if trial.scenario == "server":
        request, outcome = server_rate.timed(request, responder, results, emit)
    else:
        outcome = responder.run(request, results / "loadgen")
    found = disturbance.between(before, meter.read())
    duration_s = (responder.last_ns - responder.first_ns) / 1e9
    values = _report(trial, request, outcome, duration_s)
    emit("inference", monotonic_ns=responder.last_ns, **values, disturbance=asdict(found))
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
        samples = min(max(least, rate * min_s), rate * max_s)
        least = per_call * max(1, math.ceil(samples / per_call))  # no call is filled
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
    call_s = statistics.median(medians[-3:])  # one block may be disturbed
    emit("warmed", calls=calls, duration_s=total_s, call_s=call_s, steady=steady)
    return call_s


def _overhead(trial: Trial, ready: Array, inputs: Array, results: Path, emit: Emit) -> None:
    """Run the scenario with a null model, which returns `ready`; of a server, one query a time."""
    request = _request(trial)
    if trial.scenario == "server":
        request = replace(request, scenario="single_stream")
    calls = 1000
    least = calls * (trial.batch_size if trial.scenario == "offline" else 1)
    request = replace(request, min_queries=least, min_s=0.0, max_s=OVERHEAD_S, call_s=1e-5)
    responder = Responder(lambda batch: ready, inputs, trial.batch_size)
    outcome = responder.run(request, results / "loadgen-null")
    if trial.scenario == "offline":
        latency_s = least / float(outcome.values["result_samples_per_second"]) / calls
    else:
        latency_s = outcome.percentiles_s["50"]
    emit("overhead", latency_s=latency_s)


def _report(
    trial: Trial, request: Request, outcome: loadgen.Outcome, duration_s: float
) -> dict[str, Any]:
    """The values of the event `inference`."""
    values = outcome.values
    latencies = trial.scenario != "offline"  # those of one query's calls are not durations
    mean_s = float(values["result_mean_latency_ns"]) / 1e9 if latencies else math.nan
    samples = queries = int(values["result_query_count"])
    if trial.scenario == "offline":
        samples = int(values["effective_min_sample_count"])
        rate = float(values["result_samples_per_second"])
    elif trial.scenario == "multi_stream":
        samples = queries * trial.batch_size
        rate = trial.batch_size / mean_s
    elif trial.scenario == "server":
        rate = float(values["result_completed_samples_per_sec"])
    else:
        rate = 1 / mean_s
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
