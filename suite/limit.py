"""What the device can do at most, as the best framework shows it, and how near a trial comes.

The roofline model (Williams, Waterman and Patterson 2009): nothing is faster than its arithmetic at
the device's peak, nor than its traffic at the memory's bandwidth.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError

from suite import events, manifest, trial_file
from suite.attempt import attempt
from suite.closed import Closed
from suite.engines.base import Engine, Prepared, Say
from suite.inputs import Inputs
from suite.manifest import Measure
from suite.paths import home, write_atomically
from suite.plan import Trial
from suite.records import Record
from suite.tracks import UNBOUND

NAME = "limit.yaml"
# Those with a module for it in the worker; Keras's backends are among them.
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
DEADLINE_S = 300.0
NEAR = 0.5  # of a limit: what is beyond this share of neither is far from both

Near = Literal["compute", "memory", "neither"]


class Best(Closed):
    """The most work in a second (operations, or bytes), and whose."""

    work_per_s: float
    framework: str


class Limit(Closed):
    """Each operation's best, and what each framework did; of those it has not, nothing."""

    device: str
    best: dict[str, Best]
    by_framework: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Share:
    """Of the peak of arithmetic in the trial's precision, and of the bandwidth; more than 1 where
    caches keep what is counted as traffic."""

    compute: float
    memory: float

    @property
    def near(self) -> Near:
        if max(self.compute, self.memory) < NEAR:
            return "neither"
        return "compute" if self.compute >= self.memory else "memory"


def measure(
    engine: Engine,
    trial: Trial,
    prepared: dict[str, Prepared],
    given: Inputs,
    *,
    work: Path,
    say: Say,
) -> Limit:
    """Each framework's worker in mode `limit`, one after the other; one that fails shows none.

    Of `trial` only the device matters.
    """
    told: dict[str, dict[str, float]] = {}
    logs = home() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for framework in [name for name in FRAMEWORKS if name in prepared]:
        say(f"measuring the limit of {trial.device} with {framework}")
        folder = work / f"limit-{framework}"
        variant = next(iter(manifest.framework(framework).variants))
        trial_file.write(
            folder,
            replace(trial, framework=framework, variant=variant, conditions=UNBOUND),
            given,
            mode="limit",
            measure=Measure(),
            cpus=engine.host["cpus"],
        )
        done = attempt(
            engine,
            prepared[framework],
            folder,
            name=f"{work.name}-limit-{framework}",
            log=logs / f"limit-{framework}.log",
            deadline_s=DEADLINE_S,
            on_event=lambda event: None,
        )
        shutil.rmtree(folder, ignore_errors=True)
        found = events.of(done.events, "limit")
        told[framework] = {each["operation"]: each["work_per_s"] for each in found}
    return Limit(device=trial.device, best=_best(told), by_framework=told)


def _best(told: dict[str, dict[str, float]]) -> dict[str, Best]:
    best: dict[str, Best] = {}
    for framework, found in told.items():
        for operation, work_per_s in found.items():
            if operation not in best or work_per_s > best[operation].work_per_s:
                best[operation] = Best(work_per_s=work_per_s, framework=framework)
    return best


def larger(one: Limit, other: Limit) -> Limit:
    """Of two measurements of a device the best of each operation: a limit is never exceeded."""
    told = {
        framework: _most(one.by_framework.get(framework, {}), other.by_framework.get(framework, {}))
        for framework in one.by_framework | other.by_framework
    }
    return Limit(device=one.device, best=_best(told), by_framework=told)


def _most(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(found.get(name, 0.0) for found in (one, other)) for name in (one | other)}


def share(record: Record, rate: float | None, limit: Limit | None) -> Share | None:
    """How much of the device's limit `rate` (samples per second) is; None where it is unknown."""
    if limit is None or rate is None:
        return None
    peak, copy = limit.best.get(f"matmul_{record.arithmetic}"), limit.best.get("copy")
    if peak is None or copy is None or limit.device != record.device:
        return None
    return Share(
        compute=rate * record.flops_per_sample / peak.work_per_s,
        memory=rate * record.bytes_per_sample / copy.work_per_s,
    )


def write(folder: Path, limit: Limit) -> None:
    """Raise OSError where it cannot be written."""
    write_atomically(folder / NAME, yaml.safe_dump(limit.model_dump(), sort_keys=False))


def read(folder: Path) -> Limit | None:
    """Of a run; None where none was measured, or it cannot be read."""
    try:
        return Limit.model_validate(yaml.safe_load((folder / NAME).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError):
        return None
