"""The ranks of a trial: processes that train one model together, one for each device.

Each has a number and knows the others through one connection, over which they wait for each other
and exchange small values. The frameworks have their own connections, for gradients.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from .protocol import Trial

RANK, SIZE = "RANK", "WORLD_SIZE"  # the variables of `launch` and torchrun
# The variable of the number of a rank, and that of the number of all ranks, by launcher.
SIZES = {
    RANK: SIZE,
    "SLURM_PROCID": "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
}
MEETING_S = 300.0  # how long a rank waits for the others, which may start later
RETRY_S = 0.05
FIRST_PORT, PORTS = 20000, 10000  # of a Slurm job's rank 0


class Alone:
    """The only rank of a trial. It waits for nobody."""

    size = 1

    def gather(self, value: Any) -> list[Any]:
        """The value of each rank."""
        return [value]

    def wait(self) -> None:
        """Return when all ranks have come to this line."""

    def close(self) -> None:
        """Close the connections."""


class Group(Alone):
    """One of several ranks. Rank 0 is connected with each of the others."""

    def __init__(self, trial: Trial) -> None:
        """Raise TimeoutError where the others do not come."""
        assert trial.rendezvous
        host, _, port = trial.rendezvous.rpartition(":")
        self.size = trial.world_size
        self._rank = trial.rank
        self._peers: list[Connection] = []
        if trial.rank == 0:
            self._peers = _accept(int(port), trial.world_size - 1)
        else:
            self._peers = [_connect(host, int(port))]
            self._peers[0].send_bytes(json.dumps(trial.rank).encode())

    def gather(self, value: Any) -> list[Any]:
        if self._rank:
            self._peers[0].send_bytes(json.dumps(value).encode())
            values: list[Any] = json.loads(self._peers[0].recv_bytes())
            return values
        values = [value, *(json.loads(peer.recv_bytes()) for peer in self._peers)]
        reply = json.dumps(values).encode()
        for peer in self._peers:
            peer.send_bytes(reply)
        return values

    def wait(self) -> None:
        self.gather(None)

    def addresses(self) -> list[str]:
        """A free host:port of each rank, as the others reach it."""
        with socket.fromfd(self._peers[0].fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
            host = own.getsockname()[0]
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        return self.gather(f"{host}:{port}")

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


def _accept(port: int, others: int) -> list[Connection]:
    """The connections with the other ranks, in their order."""
    by_rank: dict[int, Connection] = {}
    with Listener(("", port), "AF_INET", backlog=max(1, others)) as listener:
        _with_timeout(listener, MEETING_S)
        while len(by_rank) < others:
            peer = listener.accept()
            by_rank[json.loads(peer.recv_bytes())] = peer
    return [by_rank[rank] for rank in sorted(by_rank)]


def _with_timeout(listener: Listener, seconds: float) -> None:
    """Let `accept` end after a time; the class has no option for it."""
    listener._listener._socket.settimeout(seconds)  # type: ignore[attr-defined]


def _connect(host: str, port: int) -> Connection:
    end = time.monotonic() + MEETING_S
    while True:
        try:
            return Client((host, port), "AF_INET")
        except OSError:  # rank 0 does not listen yet, or has no name yet
            if time.monotonic() >= end:
                raise TimeoutError(f"rank 0 does not answer at {host}:{port}") from None
            time.sleep(RETRY_S)


@contextmanager
def joined(trial: Trial) -> Iterator[tuple[Trial, Alone]]:
    """This rank's trial, with the addresses of all ranks, and its connection with them."""
    if trial.world_size == 1:
        yield trial, Alone()
        return
    group = Group(trial)
    try:
        yield replace(trial, addresses=tuple(group.addresses())), group
    finally:
        group.close()


def number(environment: Mapping[str, str] = os.environ) -> int | None:
    """The number that a launcher gave to this process; None where there was no launcher."""
    return next((int(environment[name]) for name in SIZES if name in environment), None)


def of(trial: Trial, rank: int, environment: Mapping[str, str] = os.environ) -> Trial:
    """The trial of one rank: its number, its share of the CPUs, and its folder of results.

    Raise ValueError where the launcher started another number of ranks than the trial has.
    """
    sizes = (environment.get(SIZES[name]) for name in SIZES if name in environment)
    size = int(next(sizes, None) or trial.world_size)
    if size != trial.world_size or rank >= size:
        raise ValueError(f"rank {rank} of {size}: the trial has {trial.world_size} ranks")
    local = rank % trial.ranks_per_node
    share = len(trial.cpus) // trial.ranks_per_node
    results = folder(Path(trial.paths["results"]), rank)
    results.mkdir(exist_ok=True)
    return replace(
        trial,
        rank=rank,
        rendezvous=trial.rendezvous or meeting_point(environment),
        cpus=trial.cpus[local * share : (local + 1) * share],
        paths={**trial.paths, "results": str(results)},
    )


def folder(results: Path, rank: int) -> Path:
    """The folder of a rank's results: rank 0 has that of the trial."""
    return results / f"rank{rank}" if rank else results


def meeting_point(environment: Mapping[str, str]) -> str:
    """host:port of rank 0, by the variables of torchrun, srun or mpirun."""
    if "MASTER_ADDR" in environment:  # torchrun itself uses the port
        return f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
    if "SLURM_JOB_ID" in environment:
        port = FIRST_PORT + int(environment["SLURM_JOB_ID"]) % PORTS
        return f"{environment['SLURM_LAUNCH_NODE_IPADDR']}:{port}"
    if environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == environment.get("OMPI_COMM_WORLD_SIZE"):
        return "127.0.0.1:29501"
    raise ValueError("several nodes need MASTER_ADDR and MASTER_PORT")
