"""MLCommons LoadGen: it decides when a query is issued, and it measures the latencies.

What LoadGen measures here are not MLPerf results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlperf_loadgen
import numpy as np

from .protocol import Array

NAME = f"mlcommons-loadgen {version('mlcommons-loadgen')}"
SCENARIOS = {
    "single_stream": mlperf_loadgen.TestScenario.SingleStream,
    "multi_stream": mlperf_loadgen.TestScenario.MultiStream,
    "offline": mlperf_loadgen.TestScenario.Offline,
    "server": mlperf_loadgen.TestScenario.Server,
}
MARK = ":::MLLOG "  # before each JSON object of LoadGen's detailed log
PERCENTILES = ("50", "90", "95", "97", "99", "99.9")
Issue = Callable[[Any], None]  # takes a list of QuerySample


@dataclass(frozen=True)
class Request:
    """One test: how many queries, how long, and of which kind."""

    scenario: str
    samples: int  # of the query library
    batch_size: int = 1  # samples of a query in scenario multi_stream
    accuracy: bool = False  # answer each sample once, instead of measuring
    min_s: float = 0.0
    max_s: float = 0.0  # 0: no limit
    min_queries: int = 1  # of samples in scenario offline
    call_s: float = 1e-3  # the expected duration of one call of the model
    rate_per_s: float = 1.0  # scenario server: of the queries
    latency_bound_s: float = 1.0  # scenario server
    log_share: float = 0.0  # of the answers that are written, drawn at random
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What LoadGen reports of a test, by the keys of its detailed log."""

    folder: Path
    values: dict[str, Any] = field(repr=False)

    def seconds(self, key: str) -> float | None:
        """A value of the log in nanoseconds, as seconds; None where the log has none."""
        found = self.values.get(key)
        return found / 1e9 if found else None

    @property
    def percentiles_s(self) -> dict[str, float]:
        """The latency of a query at each of `PERCENTILES`."""
        named = {
            each: self.seconds(f"result_{float(each):.2f}_percentile_latency_ns")
            for each in PERCENTILES
        }
        return {name: value for name, value in named.items() if value}

    @property
    def early_stopping_s(self) -> dict[str, float]:
        """LoadGen's upper estimates of percentiles 90 and 99, where it makes them."""
        keys = {"90": "early_stopping_latency_ss", "99": "early_stopping_latency_ms"}
        named = {name: self.seconds(key) for name, key in keys.items()}
        return {name: value for name, value in named.items() if value}

    def answers(self, dtype: str) -> tuple[Array, Array]:
        """The answers that LoadGen wrote: the sample of each, and its logits, one row each."""
        logged = json.loads((self.folder / "mlperf_log_accuracy.json").read_text(encoding="ascii"))
        rows = [np.frombuffer(bytes.fromhex(each["data"]), dtype) for each in logged]
        return np.array([each["qsl_idx"] for each in logged], np.int32), np.stack(rows)


def run(request: Request, issue: Issue, folder: Path) -> Outcome:
    """Run one test in this thread; LoadGen calls `issue` and writes its logs into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    system = mlperf_loadgen.ConstructSUT(issue, lambda: None)
    library = mlperf_loadgen.ConstructQSL(
        request.samples, request.samples, lambda indices: None, lambda indices: None
    )
    logs = mlperf_loadgen.LogSettings()
    logs.log_output.outdir = str(folder)
    logs.log_output.copy_summary_to_stdout = False
    logs.enable_trace = False
    try:
        mlperf_loadgen.StartTestWithLogSettings(system, library, _settings(request), logs, "")
    finally:
        mlperf_loadgen.DestroyQSL(library)
        mlperf_loadgen.DestroySUT(system)
    lines = (folder / "mlperf_log_detail.txt").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]
    return Outcome(folder, {entry["key"]: entry["value"] for entry in entries})


def _settings(request: Request) -> Any:
    settings = mlperf_loadgen.TestSettings()
    modes = mlperf_loadgen.TestMode
    settings.scenario = SCENARIOS[request.scenario]
    settings.mode = modes.AccuracyOnly if request.accuracy else modes.PerformanceOnly
    settings.min_duration_ms = round(1000 * request.min_s)
    settings.max_duration_ms = round(1000 * request.max_s)
    settings.min_query_count = request.min_queries
    # LoadGen prepares twice as many queries as fit into the duration at this latency.
    expected_ns = max(1, round(request.call_s * 1e9))
    settings.single_stream_expected_latency_ns = expected_ns
    settings.multi_stream_expected_latency_ns = expected_ns
    settings.multi_stream_samples_per_query = request.batch_size
    settings.offline_expected_qps = request.batch_size / request.call_s
    settings.server_target_qps = request.rate_per_s
    settings.server_target_latency_ns = round(1e9 * request.latency_bound_s)
    for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(settings, name, request.seed)
    settings.accuracy_log_rng_seed = request.seed
    settings.accuracy_log_probability = request.log_share
    return settings
