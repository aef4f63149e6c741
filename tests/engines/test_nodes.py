"""The nodes of a trial, without workers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from suite.engines import nodes
from suite.engines.attempt import run_task
from suite.engines.base import Network, Outcome, Prepared, WorkerRun
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from tests.conftest import made_up


class Refusing:
    """An engine on which node 1 cannot be started, and node 0 runs until it is ended."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True

    def run(self, worker: WorkerRun, on_line: object) -> Outcome:
        assert worker.place
        if worker.place.node == 1:
            raise EngineError("no space for a container", hint="docker system prune")
        ended: list[bool] = []
        while not ended:
            worker.place.stop.on_call(lambda: ended.append(True))
        return Outcome(exit_code=-9)


def run(engine: Any, place: Path) -> Outcome:
    """Run a worker on two nodes, with folders in `place`."""
    folders = [place / "first", place / "second"]
    for folder in folders:
        (folder / "results").mkdir(parents=True)
    network = Network(name=None, hosts=("a", "b"), separate=True)
    prepared = Prepared(framework="tiny", lock_sha256="")
    worker = WorkerRun(
        prepared=prepared, folder=folders[0], name="w", log=place / "log", deadline_s=9
    )
    return nodes.run(engine, folders, network, worker, lambda line: None)


def test_a_node_that_cannot_be_started_fails_the_trial_and_not_the_engine(tmp_path: Path) -> None:
    engine = Refusing()
    with pytest.raises(EngineError, match="no space"):
        run(engine, tmp_path)
    assert not engine.stopped


class Disconnected(VenvEngine):
    """An engine whose network cannot be made."""

    @contextmanager
    def network(self, name: str, nodes: int) -> Iterator[Network]:
        raise EngineError("all address pools are in use", hint="docker network prune")
        yield


def test_a_network_that_cannot_be_made_fails_one_trial_and_not_the_plan(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    done = run_task(
        Disconnected(),
        Prepared(framework="pytorch", lock_sha256=""),
        Task(trial=trial, inputs=made_up(trial.workload, tmp_path / "inputs"), mode="train"),
        tmp_path / "trial",
        name="trial",
        log=tmp_path / "log",
        deadline_s=9,
    )
    assert done.status == "failed"
    assert done.error and "address pools" in done.error.message


class Losing:
    """An engine on which the container of node 1 is removed, and node 0 then fails."""

    def run(self, worker: WorkerRun, on_line: object) -> Outcome:
        assert worker.place
        if worker.place.node == 1:
            return Outcome(exit_code=-9, end="removed")
        event = {"event": "failed", "error_class": "ConnectionError", "message": "reset"}
        (worker.folder / "results" / "events.jsonl").write_text(json.dumps(event) + "\n")
        return Outcome(exit_code=1)


def test_a_removed_container_comes_before_the_failures_that_follow(tmp_path: Path) -> None:
    assert run(Losing(), tmp_path).end == "removed"
