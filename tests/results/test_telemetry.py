"""The energy of several devices that train together."""

from typing import Any

from suite.results.record import Memory, Rank
from suite.results.telemetry import Energy, Gpu, Telemetry, together
from tests.results.test_record import record


def energy(gross_j: float, net_j: float | None = 1.0) -> Energy:
    return Energy(
        source="counter",
        gross_j=gross_j,
        net_j=net_j,
        gross_j_per_sample=gross_j / 10,
        net_j_per_sample=None if net_j is None else net_j / 10,
        idle_power_w=20.0,
    )


def telemetry(of_gpu: Energy | None = None, **changes: Any) -> Telemetry:
    values: dict[str, Any] = dict.fromkeys(Telemetry.model_fields) | {
        "samples": 4,
        "problems": {},
    }
    if of_gpu is not None:
        values["gpu"] = Gpu(**(dict.fromkeys(Gpu.model_fields) | {"uuid": "u", "energy": of_gpu}))
    return Telemetry(**(values | changes))


def test_the_energies_of_devices_add_up() -> None:
    found = together([energy(30.0), energy(50.0)])
    assert found and (found.gross_j, found.gross_j_per_sample, found.net_j) == (80.0, 8.0, 2.0)


def test_one_unknown_energy_makes_the_sum_unknown() -> None:
    assert together([energy(30.0), None]) is None
    found = together([energy(30.0), energy(50.0, net_j=None)])
    assert found and found.gross_j == 80.0 and found.net_j is None


def test_the_energy_of_a_run_is_that_of_the_gpus_of_all_ranks() -> None:
    of_ranks = [telemetry(energy(30.0)), telemetry(energy(50.0))]
    ranks = tuple(
        Rank(rank=rank, memory=Memory(), telemetry=each, log=f"rank{rank}.log")
        for rank, each in enumerate(of_ranks)
    )
    alone = record(device="cuda", telemetry=of_ranks[0])
    several = record(device="cuda:2", telemetry=of_ranks[0], ranks=ranks)
    assert alone.energy == energy(30.0)
    assert several.energy and several.energy.gross_j == 80.0


def test_the_energy_of_a_run_without_a_gpu_is_that_of_the_cpu() -> None:
    assert record(telemetry=telemetry(cpu_energy=energy(5.0))).energy == energy(5.0)

    assert record().energy is None


def test_the_cores_of_all_ranks_count_and_those_of_others_do_not_have_them() -> None:
    of_ranks = [telemetry(cores=0.9, other_cores=1.2), telemetry(cores=1.0, other_cores=1.1)]
    ranks = tuple(Rank(rank=rank, telemetry=each) for rank, each in enumerate(of_ranks))
    found = record(device="cpu:2", ranks=ranks, telemetry=of_ranks[0])
    assert found.cores_used == 1.9 and found.other_cores is not None
    assert abs(found.other_cores - 0.2) < 1e-9
    assert (record().cores_used, record().other_cores) == (None, None)


def test_the_energy_of_several_machines_is_the_sum_of_one_rank_on_each() -> None:
    of_ranks = [telemetry(cpu_energy=energy(joules)) for joules in (5.0, 5.0, 7.0, 7.0)]
    ranks = tuple(Rank(rank=rank, telemetry=each) for rank, each in enumerate(of_ranks))

    def gross_j(*, separate: bool) -> float | None:
        environment = {"cpus": [0, 1], "separate_nodes": separate}
        changes = {"device": "cpu:2x2", "ranks": ranks, "environment": environment}
        found = record(telemetry=of_ranks[0], **changes).energy
        return found.gross_j if found else None

    assert (gross_j(separate=False), gross_j(separate=True)) == (5.0, 12.0)
