"""Warnings about the figures of a trial: each is raised alone, and none without a reason."""

from typing import get_args

import pytest

from suite.manifests.workloads import Scenario
from suite.report.warnings import warnings_of
from suite.results.blocks import Block, Blocks
from suite.results.record import Closing, Parity, Rank, RateTried
from suite.results.telemetry import Gpu, Telemetry
from tests.report.made_inference import CERTIFIED, inferred
from tests.results.test_record import PROVEN, record

QUIET = {"cpus": [0, 1], "governor": None, "worker": {"device": {"threads": 2}}}


def constant(loss: float) -> Blocks:
    """Five blocks that all end with the same loss."""
    block = Block(warmup=False, monotonic_ns=1, steps=1, duration_s=1, samples_per_s=1, loss=loss)
    return Blocks.of([block] * 5)


def raised(rates: tuple[float, ...] = (100.0, 101.0, 102.0), **changes: object) -> list[str]:
    """The warnings about a trial with a run for each rate; all of them have a hint."""
    values = {"environment": QUIET, "steady": True, **changes}
    runs = [
        record(repeat=repeat, samples_per_s=rate, **values) for repeat, rate in enumerate(rates)
    ]
    return [f"{each.kind}: {each.detail}" for each in warnings_of(runs) if each.hint]


def test_three_proven_runs_on_a_quiet_machine_raise_no_warning() -> None:
    assert raised() == []


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"parity": Parity(proven=False, reason="step 3: loss is off")},
            "not proven to be the same work: step 3: loss is off",
        ),
        ({"parity": PROVEN.model_copy(update={"steps": 1})}, "proven over few steps: 1"),
        ({"blocks": constant(2.5)}, "the loss is constant: 2.5 at the end of 5 blocks"),
        ({"rates": (100.0, 101.0)}, "too few runs: 2"),
        ({"steady": False}, "not steady after warm-up: 3 of 3 runs"),
        ({"rates": (100.0, 120.0, 110.0)}, "runs vary: ±9.1%"),
        (
            {"environment": {**QUIET, "worker": {"device": {"threads": 1}}}},
            "threads differ from cores: 1 on 2",
        ),
        (
            {
                "environment": {**QUIET, "worker": {"device": {"policy": {"products": "float32"}}}},
                "precision": "bf16_mixed",
            },
            "products in float32: operands rounded to bfloat16",
        ),
        (
            {"environment": {**QUIET, "own_python": True}},
            "packages of the user's own Python: no lock",
        ),
        (
            {"environment": {**QUIET, "governor": "powersave"}},
            "the CPU's frequency varies: governor powersave",
        ),
    ],
)
def test_each_warning_is_raised_alone(changes: dict[str, object], warning: str) -> None:
    assert raised(**changes) == [warning]  # type: ignore[arg-type]


@pytest.mark.parametrize(("interleaved", "advice"), [(1, "--interleave"), (4, "dlsuite compare")])
def test_the_hint_about_varying_runs_depends_on_interleaving(interleaved: int, advice: str) -> None:
    runs = [
        record(repeat=repeat, samples_per_s=rate, interleaved=interleaved, environment=QUIET)
        for repeat, rate in enumerate((100.0, 120.0))
    ]
    (hint,) = (each.hint for each in warnings_of(runs) if each.kind == "runs vary")
    assert advice in hint


def test_unknown_values_raise_no_warning() -> None:
    assert raised(environment={"cpus": [0, 1]}, steady=None) == []


def test_failed_runs_raise_no_warning() -> None:
    assert warnings_of([record(status="failed", parity=Parity(proven=False))]) == ()


QUIET_MACHINE = Telemetry(
    samples=9,
    rss_peak_bytes=1,
    cores=1.9,
    other_cores=0.1,
    steal_cores=0.0,
    sampler_cores=0.002,
    cpu_energy=None,
    gpu=Gpu(
        uuid="GPU-a",
        used_peak_bytes=1,
        used_mean_bytes=1,
        utilisation=0.9,
        sm_clock_mhz=1500,
        sm_clock_min_mhz=1400,
        temperature_max_c=60,
        throttled=(),
        other_processes=0,
        energy=None,
    ),
)


def gpu(**changes: object) -> dict[str, object]:
    assert QUIET_MACHINE.gpu is not None
    return {"gpu": QUIET_MACHINE.gpu.model_copy(update=changes)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"other_cores": 0.6}, ["other processes ran: on 0.6 cores"]),
        ({"sampler_cores": 0.02}, ["high cost of telemetry: 1.0% of the cores"]),
        ({"steal_cores": 0.3}, ["the hypervisor took CPU time: 0.3 cores"]),
        (
            {"problems": {"sampler": "no sample in the last 6.0 s"}},
            ["telemetry is not whole: no sample in the last 6.0 s"],
        ),
        (
            {"problems": {"gpu_energy": "the counter did not move"}},
            ["the GPU's energy counter is not used: the counter did not move"],
        ),
        (gpu(other_processes=2), ["the GPU was shared: 2 other processes"]),
        (gpu(throttled=("power cap",)), ["the GPU was throttled: power cap"]),
    ],
)
def test_the_telemetry_raises_warnings_about_the_machine(
    changes: dict[str, object], expected: list[str]
) -> None:
    assert raised(telemetry=QUIET_MACHINE.model_copy(update=changes)) == expected


def test_the_telemetry_of_every_rank_counts() -> None:
    assert QUIET_MACHINE.gpu is not None
    slow = QUIET_MACHINE.model_copy(update=gpu(throttled=("power cap",)))
    ranks = (Rank(rank=0, telemetry=QUIET_MACHINE), Rank(rank=1, telemetry=slow))
    found = raised(telemetry=QUIET_MACHINE, ranks=ranks)
    assert "the GPU was throttled: power cap" in found


def of_inference(scenario: str = "single_stream", **changes: object) -> list[str]:
    """The warnings about three runs of inference; all of them have a hint."""
    p50_s = (300e-6, 301e-6, 302e-6)
    runs = [
        inferred(scenario, value, repeat=repeat, environment=QUIET, **changes)
        for repeat, value in enumerate(p50_s)
    ]
    return [f"{each.kind}: {each.detail}" for each in warnings_of(runs) if each.hint]


@pytest.mark.parametrize("scenario", get_args(Scenario))
def test_inference_proven_by_one_step_raises_no_warning(scenario: str) -> None:
    assert of_inference(scenario, samples_per_s=100.0, rate_per_s=90.0) == []


HELD, MISSED = (RateTried(rate_per_s=9, p99_s=0.02, holds=holds) for holds in (True, False))


@pytest.mark.parametrize(
    ("scenario", "changes", "warning"),
    [
        ("single_stream", {"overhead_s": 6e-6}, "overhead above 1 %: 2.0% of p50"),
        ("offline", {"overhead_s": 6e-6}, "overhead above 1 %: 2.0% of a call"),
        (
            "single_stream",
            {"queries": 1400},
            "fewer queries than the suite wants: 1,400 of 2,000 queries",
        ),
        (
            "offline",
            {"samples": 1400},
            "fewer queries than the suite wants: 1,400 of 2,000 samples",
        ),
        ("server", {"rates": (HELD, MISSED)}, "the rate of queries does not hold: p99 above 10 ms"),
        (
            "single_stream",
            {"parity": CERTIFIED.closed(Closing(proven=False, step=0, reason="a logit is off"))},
            "answers not proven: a logit is off",
        ),
        (
            "single_stream",
            {"parity": Parity(proven=False, reason="logits are off")},
            "not proven to be the same work: logits are off",
        ),
    ],
)
def test_each_warning_of_inference_is_raised_alone(
    scenario: str, changes: dict[str, object], warning: str
) -> None:
    fixed = {"samples_per_s": 100.0, "rate_per_s": 90.0}
    assert of_inference(scenario, **fixed | changes) == [warning]


def test_latencies_that_vary_raise_a_warning_though_rates_do_not() -> None:
    runs = [
        inferred(p50_s=value, repeat=repeat, samples_per_s=100.0, environment=QUIET)
        for repeat, value in enumerate((300e-6, 400e-6, 350e-6))
    ]
    assert "runs vary" in [each.kind for each in warnings_of(runs)]
