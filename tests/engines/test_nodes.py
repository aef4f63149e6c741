"""The nodes of a trial, without workers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.engines import nodes
from suite.engines.base import Network, Outcome, Prepared, WorkerRun
from suite.errors import EngineError


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


def test_a_node_that_cannot_be_started_fails_the_trial_and_not_the_engine(tmp_path: Path) -> None:
    engine: Any = Refusing()
    folders = [tmp_path / "first", tmp_path / "second"]
    network = Network(name=None, hosts=("a", "b"), separate=True)
    prepared = Prepared(framework="tiny", lock_sha256="")
    worker = WorkerRun(
        prepared=prepared, folder=folders[0], name="w", log=tmp_path / "log", deadline_s=9
    )
    with pytest.raises(EngineError, match="no space"):
        nodes.run(engine, folders, network, replace(worker), lambda line: None)
    assert not engine.stopped
