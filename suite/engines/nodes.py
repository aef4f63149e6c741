"""Runs the workers of a trial on several nodes of one engine, and ends all when one fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.engines.base import Engine, Network, OnLine, Outcome, Place, Stop, WorkerRun
from suite.engines.errors import EngineLost
from suite.engines.parallel import in_parallel
from suite.errors import EngineError
from suite.worker.launch import failure, failure_order

GRACE_S = 2.0  # for the other nodes to end by themselves, so that it is known which failed first


def run(
    engine: Engine,
    folders: Sequence[Path],
    network: Network,
    worker: WorkerRun,
    on_line: OnLine,
) -> Outcome:
    """Run `worker` in each folder, a node of its own; return how the first failed one ended.

    The results of all ranks are then in the first folder. Its events end with the failure. Raise
    EngineError where a node cannot be started; the others are then ended.
    """
    stop = Stop()

    def one(node: int) -> Outcome | EngineError:
        of_node = replace(
            worker,
            folder=folders[node],
            name=f"{worker.name}-node{node}",
            log=worker.log if node == 0 else worker.log.with_suffix(f".node{node}.log"),
            place=Place(network=network, node=node, stop=stop),
        )
        try:
            outcome = engine.run(of_node, on_line if node == 0 else lambda line: None)
        except EngineLost:
            raise
        except EngineError as error:
            stop()
            return error  # raised here, it would stop the engine for all later runs
        if _failed(outcome):
            timer = threading.Timer(GRACE_S, stop)
            timer.daemon = True
            timer.start()
        return outcome

    found = in_parallel(engine, one, range(len(folders)), at_once=len(folders))
    for each in found:
        if isinstance(each, EngineError):
            raise each
    outcomes = [each for each in found if isinstance(each, Outcome)]
    for folder in folders[1:]:
        for of_rank in (folder / "results").glob("rank*"):
            of_rank.rename(folders[0] / "results" / of_rank.name)
    failed = [node for node, outcome in enumerate(outcomes) if _failed(outcome)]
    if not failed:
        return outcomes[0]
    failures = {node: failure(folders[node] / "results" / "events.jsonl") for node in failed}
    # A node whose engine ended it failed before the others, which miss it.
    first = min(
        failed, key=lambda node: (outcomes[node].end == "exited", failure_order(failures[node]))
    )
    if first and failures[first]:
        _append(folders[first], folders[0])
    return outcomes[first]


def _failed(outcome: Outcome) -> bool:
    return outcome.end != "exited" or outcome.exit_code != 0


def _append(source: Path, target: Path) -> None:
    """Append the events of a node without rank 0, which are its failure, to another's."""
    text = (source / "results" / "events.jsonl").read_text(encoding="utf-8")
    with (target / "results" / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)
