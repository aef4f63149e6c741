"""Trials of several ranks, and what happens when one of them is killed."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.datasets.inputs import Inputs
from suite.engines.attempt import Attempt, run_task
from suite.engines.base import Engine
from suite.engines.docker.engine import DockerEngine
from suite.engines.docker.hosts import HostsEngine
from suite.manifests import catalog
from suite.protocol.events import Event
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Task

RANKS = ["pytorch", "tensorflow", "jax", "mxnet"]  # the frameworks with several ranks


def train(
    engine: Engine,
    trial: Trial,
    inputs: Inputs,
    folder: Path,
    *,
    device: str,
    kill: int | None = None,
    epochs: int = 1,
) -> Attempt:
    """Train on a device set; `kill` a rank by SIGKILL when the first block is done.

    Both ranks may have the same core, because a process of the tests has only some of the cores.
    """
    engine.host["cpus"] = [*engine.host["cpus"], *engine.host["cpus"]][:2]
    killed: list[int] = []

    def on_event(event: Event) -> None:
        if kill is not None and event["event"] in ("warmup", "block") and not killed:
            killed.append(kill)
            os.kill(min(processes(kill, folder_of(engine, folder))), signal.SIGKILL)

    return run_task(
        engine,
        engine.prepare(catalog.framework(trial.framework), lambda text: None),
        Task(
            trial=replace(trial, device=device, cpu_parts=2),
            inputs=inputs,
            mode="train",
            epochs=epochs,
            closing=kill is None,
        ),
        folder,
        name=folder.name,
        log=folder.parent / "log",
        deadline_s=120,
        on_event=on_event,
    )


def folder_of(engine: Engine, folder: Path) -> str:
    """The trial's folder as the command of its worker names it."""
    return " /trial" if isinstance(engine, DockerEngine | HostsEngine) else str(folder)


def processes(rank: int, folder: str) -> list[int]:
    """All processes of a rank: the worker and its children."""
    return [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if b"RANK=%d" % rank in _environment(path) and folder in _command(path)
    ]


def none_left(engine: Engine, folder: Path) -> bool:
    """Whether no process of ranks 0 and 1 is left within ten seconds."""
    for _ in range(100):
        if not any(processes(rank, folder_of(engine, folder)) for rank in (0, 1)):
            return True
        time.sleep(0.1)
    return False


def _environment(process: Path) -> list[bytes]:
    return _read(process / "environ").split(b"\0")


def _command(process: Path) -> str:
    return _read(process / "cmdline").replace(b"\0", b" ").decode(errors="replace")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def losses(attempt: Attempt) -> list[Any]:
    """The losses of the blocks as each rank reported them: equal, because they are means."""
    return [[event.get("loss") for event in each.events] for each in attempt.ranks]
