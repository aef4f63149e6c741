"""Asks SkyPilot, in its own environment: the only place that starts it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from suite.cloud.offers import Offer, Wanted
from suite.errors import EngineError
from suite.manifests.strict import first_problem
from suite.worker.programs import ask

SCRIPT = Path(__file__).with_name("in_skypilot.py")
TIMEOUT_S = 300  # the first question fetches the catalogs of all providers
HINT = 'uv tool install "skypilot[aws,lambda]", then sky check'


@dataclass(frozen=True, kw_only=True)
class Found:
    """The offers of a kind of machine, and the version of SkyPilot that listed them."""

    version: str
    offers: tuple[Offer, ...]


def offers(wanted: Wanted, *, clouds: Sequence[str], region: str | None) -> Found:
    """The machines of this kind that SkyPilot knows; EngineError without an answer."""
    request = {**wanted.model_dump(), "clouds": list(clouds), "region": region}
    command: list[str | Path] = [python(), SCRIPT, json.dumps(request)]
    reply = ask(command, timeout_s=TIMEOUT_S, environment=environment())
    if reply.problem:
        raise EngineError(f"SkyPilot lists no offers: {reply.problem}", hint="sky check")
    last = (reply.output.strip().splitlines() or [""])[-1]  # after what libraries print
    try:
        values = json.loads(last)
        found = tuple(Offer.model_validate(each) for each in values["offers"])
        return Found(version=str(values["version"]), offers=found)
    except ValidationError as error:
        reason = first_problem(error)
    except (ValueError, LookupError, TypeError):
        reason = f"it printed {last[:80]!r}"
    raise EngineError(f"SkyPilot lists no offers: {reason}", hint="sky --version; 0.14 is known")


def program() -> str:
    """The program `sky`; EngineError where it is not on PATH."""
    found = shutil.which("sky")
    if found is None:
        raise EngineError("sky, SkyPilot's program, is not on PATH", hint=HINT)
    return found


def environment() -> dict[str, str]:
    """The environment of the program: it reports no usage."""
    return {**os.environ, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}


def python() -> Path:
    """The interpreter of the program, which its first line names."""
    name = program()
    try:
        with Path(name).open("rb") as file:
            first = file.readline(1024).decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise EngineError(f"{name}: {error.strerror}", hint=HINT) from None
    found = Path(first.removeprefix("#!").strip())
    if not first.startswith("#!") or not found.is_file():
        raise EngineError(f"{name} names no Python in its first line: {first!r}", hint=HINT)
    return found
