"""Records of inference made by hand, and a run's folder of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from suite.manifests import catalog
from suite.manifests.workloads import Workload
from suite.paths import MANIFESTS
from suite.results import roofline, store
from suite.results.record import Closing, Error, Inference, Memory, Parity, RateTried, Record, Times
from tests.report.made_run import ENVIRONMENT
from tests.results.test_record import record
from tests.results.test_roofline import PEAK

ANSWERED = Closing(proven=True, step=0, answers=250)
CERTIFIED = Parity(proven=True, steps=1, closing=ANSWERED)
OF_P50 = {"50": 1.0, "90": 1.1, "95": 1.2, "97": 1.3, "99": 2.0, "99.9": 8.0}
RUNS = 4
RATES = {1: 3000.0, 2: 5000.0, 4: 9600.0, 8: 9900.0, 16: 10_000.0}  # by batch size
SLOWNESS = {  # framework, variant -> times as slow as the first
    ("pytorch", "eager"): 1.0,
    ("pytorch", "compiled"): 1.1,
    ("jax", "jit"): 1.3,
}


def inferred(scenario: str = "single_stream", p50_s: float = 300e-6, **changes: object) -> Record:
    """A run of LeNet that answered queries; the other percentiles are multiples of `p50_s`.

    The changes are fields of the record, of its workload, or of its inference.
    """
    latencies = scenario != "offline"
    of_inference: dict[str, object] = {
        "loadgen": "made here",
        "queries": 2500 if latencies else 1,
        "samples": 2500,
        "mean_s": 1.1 * p50_s if latencies else None,
        "min_s": None,
        "max_s": None,
        "percentiles_s": {name: p50_s * by for name, by in OF_P50.items()} if latencies else {},
        "early_stopping_s": {"90": 1.2 * p50_s, "99": 2.5 * p50_s} if latencies else {},
        "call_s": p50_s,
        "overhead_s": 1e-6,
        "rate_per_s": 1 / p50_s if scenario == "server" else None,
    }
    of_inference |= {name: changes.pop(name) for name in of_inference.keys() & changes.keys()}
    rates = changes.pop("rates", ())
    workload: dict[str, object] = {
        "model": "lenet",
        "dataset": "mnist",
        "mode": "infer",
        "scenario": scenario,
        "batch_size": 8 if scenario == "multi_stream" else 1,
        "query_samples": 500,
        "latency_bound_s": 0.01 if scenario == "server" else None,
    }
    names = Workload.model_fields.keys() & changes.keys()
    workload |= {name: changes.pop(name) for name in names}
    of_record: dict[str, object] = {
        "workload": Workload.model_validate(workload),
        "trial_id": f"pytorch-{scenario}-b{workload['batch_size']}",
        "samples_per_s": 0.9 / p50_s,
        "inference": Inference(**of_inference, rates=rates),  # type: ignore[arg-type]
        "environment": ENVIRONMENT,
        "parity": CERTIFIED,
        "steady": True,
        "times": Times(build_s=0.05, first_step_s=0.2, total_s=9.0),
        "memory": Memory(host_rss_peak_bytes=250 * 2**20),
    }
    made: Record = record(**of_record | changes)
    return made


def offline(rates: dict[int, float], **changes: object) -> list[Record]:
    """A run at each batch size with this rate."""
    name = f"{changes.get('framework', 'pytorch')}-{changes.get('variant', 'eager')}-offline"
    return [
        inferred(
            "offline",
            batch_size=size,
            samples_per_s=rate,
            **{"trial_id": f"{name}-b{size}"} | changes,
        )
        for size, rate in rates.items()
    ]


def untried(status: str, batch_size: int, message: str, **changes: object) -> Record:
    """A batch size that did not fit into memory, or was skipped."""
    error = Error(error_class="OutOfMemory", message=message)
    return inferred(
        "offline",
        batch_size=batch_size,
        status=status,
        error=error,
        inference=None,
        samples_per_s=None,
        **changes,
    )


def made_inference(place: Path) -> Path:
    """A run of LeNet in three configurations and all scenarios, with four runs of each trial.

    The batch size 32 of each configuration was skipped. The folder has the file of the ladder.
    """
    folder = store.RunFolder(place / "20261125-120000-inference")
    folder.logs.mkdir(parents=True)
    for each in _records():
        folder.append(each)
    roofline.write(folder.path, PEAK)
    shutil.copy(MANIFESTS / store.LADDER, folder.path)
    return folder.path


def _records() -> Iterator[Record]:
    for (framework, variant), slower in SLOWNESS.items():
        name = f"{framework}-{variant}"
        shared: dict[str, object] = {
            "run_id": "20261125-120000-inference",
            "framework": framework,
            "framework_version": "1.2.3",
            "variant": variant,
            "runtime": catalog.runtime_settings(framework, "equal", "cpu"),
        }
        for repeat in range(RUNS):
            by = slower * (1 + 0.01 * repeat)
            shared["repeat"] = repeat
            for scenario, p50_s in (("single_stream", 3e-4), ("multi_stream", 2e-3)):
                yield inferred(scenario, p50_s * by, **shared | {"trial_id": f"{name}-{scenario}"})
            tried = RateTried(rate_per_s=900 / by, p99_s=0.009, holds=True)
            values = {"trial_id": f"{name}-server", "rate_per_s": 900 / by}
            yield inferred("server", 3e-4 * by, rates=(tried,), **shared | values)
            yield from offline({size: rate / by for size, rate in RATES.items()}, **shared)
        message = "the throughput does not grow after batch 4"
        yield untried("skipped", 32, message, **shared | {"trial_id": f"{name}-offline-b32"})
