import pytest

from suite.results.record import Block, Parity
from suite.results.telemetry import Gpu, Telemetry
from tests.test_records import PROVEN, record

CALM = {"cpus": [0, 1], "governor": None, "worker": {"device": {"threads": 2}}}


def still(loss: float) -> tuple[Block, ...]:
    """Blocks that all end with the same loss."""
    values = {"warmup": False, "monotonic_ns": 1, "steps": 1, "duration_s": 1, "samples_per_s": 1}
    return tuple(Block(loss=loss, **values) for _ in range(5))


def kinds(rates: tuple[float, ...] = (100.0, 101.0, 102.0), **changes: object) -> list[str]:
    values = {"environment": CALM, "steady": True, **changes}
    runs = [
        record(repeat=repeat, samples_per_s=rate, **values) for repeat, rate in enumerate(rates)
    ]
    return [f"{doubt.kind}: {doubt.detail}" for doubt in warnings_of(runs) if doubt.hint]


def test_three_calm_runs_that_were_proven_raise_none() -> None:
    assert kinds() == []


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        (
            {"parity": Parity(proven=False, reason="step 3: loss is off")},
            "not proven to be the same work: step 3: loss is off",
        ),
        ({"parity": PROVEN.model_copy(update={"steps": 1})}, "proven over few steps: 1"),
        ({"blocks": still(2.5)}, "the loss does not move: 2.5 at the end of 5 blocks"),
        ({"rates": (100.0, 101.0)}, "too few runs: 2"),
        ({"steady": False}, "not steady after warm-up: 3 of 3 runs"),
        ({"rates": (100.0, 120.0, 110.0)}, "runs differ much: ±9.1%"),
        (
            {"environment": {**CALM, "worker": {"device": {"threads": 1}}}},
            "other threads than cores: 1 on 2",
        ),
        (
            {"environment": {**CALM, "own_python": True}},
            "packages of the user's own Python: no lock",
        ),
        (
            {"environment": {**CALM, "governor": "powersave"}},
            "the CPU's frequency changes: governor powersave",
        ),
    ],
)
def test_each_doubt_is_told_by_itself(changes: dict[str, object], doubt: str) -> None:
    assert kinds(**changes) == [doubt]  # type: ignore[arg-type]


@pytest.mark.parametrize(("turns", "advice"), [(1, "--turns"), (4, "dlsuite compare")])
def test_runs_that_differ_are_told_what_helps_them(turns: int, advice: str) -> None:
    runs = [record(samples_per_s=rate, turns=turns, environment=CALM) for rate in (100.0, 120.0)]
    (hint,) = (doubt.hint for doubt in warnings_of(runs) if doubt.kind == "runs differ much")
    assert advice in hint


def test_what_cannot_be_known_raises_none() -> None:
    assert kinds(environment={"cpus": [0, 1]}, steady=None) == []


def test_of_runs_that_failed_there_is_no_figure_to_doubt() -> None:
    assert warnings_of([record(status="failed", parity=Parity(proven=False))]) == ()


CALM_MACHINE = Telemetry(
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
    assert CALM_MACHINE.gpu is not None
    return {"gpu": CALM_MACHINE.gpu.model_copy(update=changes)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"other_cores": 0.6}, ["something else ran: on 0.6 cores"]),
        ({"sampler_cores": 0.02}, ["the telemetry cost much: 1.0% of the cores"]),
        ({"steal_cores": 0.3}, ["the hypervisor gave time to others: 0.3 cores"]),
        (gpu(other_processes=2), ["the GPU was shared: 2 other processes"]),
        (gpu(throttled=("power cap",)), ["the GPU was throttled: power cap"]),
    ],
)
def test_what_the_telemetry_saw_beside_the_worker(
    changes: dict[str, object], told: list[str]
) -> None:
    assert kinds(telemetry=CALM_MACHINE.model_copy(update=changes)) == told
