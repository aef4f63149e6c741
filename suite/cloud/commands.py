"""The commands of `sky` that start and end machines, and what it says of them.

A command that fails gives its reason and raises nothing: whoever ends a machine goes on.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError

from suite.cloud.skypilot import environment, program
from suite.cloud.task import RESULTS
from suite.manifests.strict import first_problem
from suite.worker.programs import Answer, ask

STATUS_S, CANCEL_S, DOWN_S, PULL_S = 300, 120, 900, 180  # limits of time
UP = "UP"
M = TypeVar("M", bound=BaseModel)


class Cluster(BaseModel):
    """A machine, as SkyPilot lists it."""

    name: str
    status: str


class Request(BaseModel):
    """A request that SkyPilot's server works on."""

    request_id: str
    cluster_name: str | None = None


class Unknown(Exception):
    """SkyPilot gave no answer; the text is the reason."""


def launch(name: str, task: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start `sky launch`, which ends when the job of the machine has ended: 0, or 100 if it failed.

    It has a session of its own: Ctrl-C in the terminal does not reach it.
    """
    return subprocess.Popen(
        [program(), "launch", "--yes", "--cluster", name, str(task)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment(),
        cwd=task.parent,
        start_new_session=True,
    )


def clusters() -> list[Cluster]:
    """All machines, after SkyPilot has asked the providers; Unknown without an answer."""
    answer = _sky("status", "--refresh", "--output", "json", timeout_s=STATUS_S)
    return [_valid(Cluster, each) for each in _values(answer)]


def cancel(name: str) -> str | None:
    """End the requests that SkyPilot's server works on for this machine; the reason if that fails.

    A client that is killed does not end its request: the launch would go on.
    """
    try:
        ids = list(_requests(name))
    except Unknown as error:
        return str(error)
    if not ids:
        return None
    return _sky("api", "cancel", "--yes", *ids, timeout_s=CANCEL_S).problem


def _requests(name: str) -> Iterator[str]:
    answer = _sky("api", "status", "--verbose", "--output", "json", timeout_s=STATUS_S)
    for values in _values(answer):
        request = _valid(Request, values)
        if request.cluster_name == name:
            yield request.request_id


def down(name: str) -> str | None:
    """End a machine; the reason where SkyPilot says that it did not."""
    return _sky("down", "--yes", name, timeout_s=DOWN_S).problem


def pull(name: str, folder: Path) -> str | None:
    """Copy the results of a machine into a folder; the reason where that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    # SkyPilot's own file, because ~/.ssh/config may not include it yet.
    configuration = Path("~/.sky/generated/ssh").expanduser() / name
    shell = f"ssh -F {configuration}" if configuration.is_file() else "ssh"
    command = ["rsync", "-az", "--timeout=60", "-e", shell, f"{name}:{RESULTS}/", f"{folder}/"]
    return ask(command, timeout_s=PULL_S).problem


def _sky(*arguments: str, timeout_s: float) -> Answer:
    return ask([program(), *arguments], timeout_s=timeout_s, environment=environment())


def _values(answer: Answer) -> Sequence[Any]:
    """The list that a command printed, after what libraries print."""
    if answer.problem:
        raise Unknown(answer.problem)
    lines = answer.output.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("[")), len(lines))
    try:
        values = json.loads("\n".join(lines[start:]))
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise Unknown(f"sky printed {answer.output.strip()[:80]!r}")
    return values


def _valid(model: type[M], values: Any) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise Unknown(f"sky printed a {model.__name__} without {first_problem(error)}") from None
