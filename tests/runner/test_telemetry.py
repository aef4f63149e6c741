"""The telemetry of the timed blocks, in figures that can be checked by hand."""

from typing import Any

import pytest

from suite.report import warnings
from suite.results.logs import Sample
from suite.results.telemetry import Telemetry
from suite.runner import telemetry

S = 1_000_000_000
STARTED = {"event": "started", "monotonic_ns": 3 * S, "import_s": 1.0}


def block(start_s: float, end_s: float) -> dict[str, Any]:
    return {"event": "block", "monotonic_ns": round(end_s * S), "duration_s": end_s - start_s}


def samples(**series: list[float | None]) -> list[Sample]:
    """One sample a second, from second 0 on."""
    count = len(next(iter(series.values())))
    return [
        {"monotonic_ns": second * S, **{name: values[second] for name, values in series.items()}}
        for second in range(count)
    ]


def summary(found: list[Sample], *blocks: dict[str, Any]) -> Telemetry:
    summarised = telemetry.summarise(found, [STARTED, *blocks], processed=10)
    assert summarised is not None
    return summarised


def test_energy_covers_only_the_blocks_and_its_net_value_subtracts_idle_power() -> None:
    """10 W idle for 2 s, then 50 W; the blocks last 1.5 s and 1 s, with a pause between."""
    rapl_j: list[float | None] = [0, 10, 20, 70, 120, 170, 220, 270]
    found = summary(samples(rapl_j=rapl_j), block(3.5, 5), block(5.5, 6.5)).cpu_energy
    assert found is not None and found.source == "counter"
    assert found.gross_j == pytest.approx(2.5 * 50)
    assert found.idle_power_w == pytest.approx(10)
    assert found.net_j == pytest.approx(2.5 * 40)
    assert found.net_j_per_sample == pytest.approx(10)


def test_processor_time_is_expressed_in_cores() -> None:
    found = summary(
        samples(
            cpu_s=[0, 0, 0, 1.5, 3, 4.5],
            busy_s=[0, 0, 0, 1.75, 3.5, 5.25],
            steal_s=[0, 0, 0, 0.1, 0.2, 0.3],
            sampler_s=[0, 0, 0, 0.05, 0.1, 0.15],
            rss_bytes=[1, 1, 1, 7, 9, 8],
        ),
        block(3, 5),
    )
    assert (found.cores, found.other_cores) == (pytest.approx(1.5), pytest.approx(0.2))
    assert found.sampler_cores == pytest.approx(0.05)
    assert found.steal_cores == pytest.approx(0.1)
    assert (found.rss_peak_bytes, found.samples) == (9, 3)


def test_values_that_were_not_sampled_throughout_the_blocks_are_null() -> None:
    late = summary(samples(cpu_s=[0, 1, 2, 3]), block(2, 4))  # the last sample is at second 3
    assert late.cores is None
    incomplete = summary(samples(cpu_s=[0, 1, 2, None, 4, 5]), block(2.5, 4.5))
    assert incomplete.cores is None
    assert (incomplete.rss_peak_bytes, incomplete.gpu, incomplete.cpu_energy) == (None, None, None)


def test_without_samples_or_blocks_there_is_no_summary() -> None:
    assert telemetry.summarise([], [STARTED, block(1, 2)], processed=1) is None
    assert telemetry.summarise(samples(cpu_s=[0, 1]), [STARTED], processed=1) is None


@pytest.mark.parametrize(
    ("rapl_j", "reason"),
    [
        ([0, 10, 20, 30, 30, 30, 30, 30], "did not move"),
        ([0, 10, 20, 30, 40, 4e9, 4e9 + 9, 4e9 + 20], "jumped by 4e+09 J"),
        ([0, 10, 20, 30, 40, 2, 12, 22], "decreased"),
        ([0, 10, 20, 30, 40, None, None, None], "became unreadable"),
        ([0, 10, 20, 30, *[40] * 7, 50, 60], "did not move for 6 s"),
    ],
)
def test_a_faulty_counter_is_null_with_a_reason(rapl_j: list[float | None], reason: str) -> None:
    found = summary(samples(rapl_j=rapl_j), block(3, len(rapl_j) - 1.5))
    assert found.cpu_energy is None and reason in found.problems["cpu_energy"]


def test_a_sampler_that_ends_early_is_a_problem_of_the_run() -> None:
    found = summary(samples(cpu_s=[0, 1, 2, 3]), block(2, 9))
    assert found.problems == {"sampler": "no sample in the last 6.0 s"}
    note = {"monotonic_ns": 1, "problem": "the sampler did not start"}
    assert summary([note], block(2, 9)).problems == {"sampler": "the sampler did not start"}
    assert summary(samples(cpu_s=[0, 1, 2, 3]), block(1, 3)).problems == {}


def test_a_slice_has_no_energy_and_says_why() -> None:
    of_gpu = [{"uuid": "MIG-1", "energy_j": None, "used_bytes": 5}] * 5
    found = summary(samples(gpu=of_gpu), block(1, 3))  # type: ignore[arg-type]
    assert found.gpu is not None and (found.gpu.energy, found.gpu.used_peak_bytes) == (None, 5)
    assert "MIG slice" in found.problems["gpu_energy"]


@pytest.mark.parametrize(
    ("name", "impossible", "field"),
    [
        ("used_bytes", 2**64 - 1, "used_peak_bytes"),
        ("temperature_c", 2**32 - 1, "temperature_max_c"),
        ("sm_clock_mhz", 0, "sm_clock_min_mhz"),
        ("utilisation", 655.35, "utilisation"),
    ],
)
def test_what_no_gpu_can_have_is_unknown_with_a_reason(
    name: str, impossible: float, field: str
) -> None:
    good, wrong = {"uuid": "GPU-1", name: 0.5}, {"uuid": "GPU-1", name: impossible}
    good[name] = 60 if name != "utilisation" else 0.5
    some = summary(samples(gpu=[good, good, wrong, good, good]), block(1, 3))  # type: ignore[list-item]
    assert getattr(some.gpu, field) == good[name]
    assert some.problems[f"gpu_{name}"].startswith("1 of 5 values, such as ")
    none = summary(samples(gpu=[wrong] * 5), block(1, 3))  # type: ignore[list-item]
    assert getattr(none.gpu, field) is None and f"gpu_{name}" in none.problems


def test_a_gpu_that_cannot_be_read_says_why() -> None:
    unread = {"uuid": None, "problem": "NVML cannot be used: Driver Not Loaded"}
    found = summary(samples(gpu=[unread] * 5), block(1, 3))  # type: ignore[list-item]
    assert found.gpu is None
    assert found.problems == {"gpu": "NVML cannot be used: Driver Not Loaded"}


def test_each_problem_has_a_title_in_the_warnings() -> None:
    possible = {f"gpu_{name}" for name in telemetry.POSSIBLE}
    assert set(warnings.TITLES) == possible | {"sampler", "gpu", "cpu_energy", "gpu_energy"}
