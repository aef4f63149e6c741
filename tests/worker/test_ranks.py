from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.engines.attempt import free_port
from suite.worker import ranks
from suite.worker.data import Batches
from suite.worker.protocol import Trial
from suite.worker.ranks import Alone, Group


def of_ranks(trial: Trial, size: int) -> list[Trial]:
    """The trial of each of `size` ranks on one node."""
    trial = replace(
        trial,
        world_size=size,
        slices=size,
        cpus=[*range(2 * size)],
        rendezvous=f"127.0.0.1:{free_port()}",
    )
    return [ranks.of(trial, rank, {}) for rank in range(size)]


def together(trials: list[Trial], call: Callable[[Trial, Alone], Any]) -> list[Any]:
    """The result of `call` for each rank, all at once."""

    def one(trial: Trial) -> Any:
        with ranks.joined(trial) as (own, group):
            return call(own, group)

    with ThreadPoolExecutor(len(trials)) as pool:
        return [*pool.map(one, trials)]


def test_ranks_exchange_values_in_their_order(trial: Trial) -> None:
    found = together(of_ranks(trial, 3), lambda own, group: group.gather([own.rank, "x"]))
    assert found == [[[0, "x"], [1, "x"], [2, "x"]]] * 3


def test_each_rank_has_an_address_that_the_others_know(trial: Trial) -> None:
    first, second = together(of_ranks(trial, 2), lambda own, group: own.addresses)
    assert first == second and len(set(first)) == 2
    assert all(address.startswith("127.0.0.1:") for address in first)


def test_one_rank_alone_waits_for_nobody(trial: Trial) -> None:
    with ranks.joined(trial) as (own, group):
        group.wait()
        assert own is trial and group.gather(3) == [3]


def test_a_rank_notices_that_another_has_gone(trial: Trial) -> None:
    def leave_or_wait(own: Trial, group: Alone) -> str:
        if own.rank == 1:
            return "left"
        try:
            group.wait()
        except (EOFError, ConnectionError):
            return "noticed"
        return "met"

    assert together(of_ranks(trial, 2), leave_or_wait) == ["noticed", "left"]


def test_the_slices_of_all_ranks_are_the_batch(trial: Trial) -> None:
    whole = Batches(trial, "NCHW")
    parts = [Batches(each, "NCHW") for each in of_ranks(trial, 4)]
    assert {part.steps_per_epoch for part in parts} == {whole.steps_per_epoch}
    for step in (0, 3, 7):
        inputs, labels = whole.at(step)
        slices = [part.at(step) for part in parts]
        assert np.array_equal(np.concatenate([each[0] for each in slices]), inputs)
        assert np.array_equal(np.concatenate([each[1] for each in slices]), labels)


def test_each_rank_has_its_own_cores_and_results(trial: Trial) -> None:
    first, second = of_ranks(trial, 2)
    assert (first.cpus, second.cpus) == ([0, 1], [2, 3])
    results = Path(trial.paths["results"])
    assert (first.paths["results"], second.paths["results"]) == (
        str(results),
        str(results / "rank1"),
    )


@pytest.mark.parametrize(
    ("environment", "number", "address"),
    [
        ({}, None, None),
        ({"RANK": "3", "MASTER_ADDR": "a", "MASTER_PORT": "100"}, 3, "a:101"),
        (
            {"SLURM_PROCID": "1", "SLURM_JOB_ID": "10007", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"},
            1,
            "10.0.0.1:20007",
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            },
            2,
            "127.0.0.1:29501",
        ),
    ],
)
def test_launchers_give_the_rank_and_the_address(
    environment: dict[str, str], number: int | None, address: str | None
) -> None:
    assert ranks.number(environment) == number
    if number is not None:
        assert ranks.meeting_point(environment) == address


def test_another_number_of_ranks_is_refused(trial: Trial) -> None:
    two = replace(trial, world_size=2)
    with pytest.raises(ValueError, match="rank 0 of 3: the trial has 2 ranks"):
        ranks.of(two, 0, {"RANK": "0", "WORLD_SIZE": "3"})


def test_a_group_of_two_uses_one_connection(trial: Trial) -> None:
    trials = of_ranks(trial, 2)
    with ThreadPoolExecutor(2) as pool:
        groups = [*pool.map(Group, trials)]
    assert [group.size for group in groups] == [2, 2]
    for group in groups:
        group.close()
