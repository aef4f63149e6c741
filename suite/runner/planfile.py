"""plan.json in a run's folder: the plan, and the worker and locks that a resume requires."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine
from suite.engines.options import EngineOptions
from suite.errors import ResultsError
from suite.manifests import json_file, weight_files
from suite.models import MODELS
from suite.models.from_json import architecture_of
from suite.paths import digest, write_atomically
from suite.protocol.plan import Plan, Run, Work
from suite.results import store
from suite.results.record import Record
from suite.runner import sources
from suite.runner.stopping import Finished, needed

NAME = store.PLAN
OLD_NAME = "plan.yaml"  # of version 6 and older
# 9: device sets; 8: proof and budget of each trial, notes; 7: JSON; 6: new names of the fields;
# 5: verify_runs
VERSION = 9


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan that was started."""

    version: int = VERSION
    session_id: str  # of the containers that belong to this run
    engine_options: EngineOptions  # with the engine that was chosen
    worker_sha256: str
    locks: dict[str, str]  # framework -> digest of the lock from which it was prepared
    plan: Plan
    machine: str | None = None  # as `machine_of`; None: of an older version
    inputs_sha256: str | None = None  # as `inputs_digest`; None: of an older version

    def must_match(
        self, engine: Engine, locks: dict[str, str], inputs: Mapping[Work, Inputs], folder: Path
    ) -> None:
        """Raise ResultsError where runs of a resume would not be comparable with finished ones.

        A machine must be the same where rates count, not where only accuracies do.
        """
        changed = [name for name in locks if self.locks.get(name, locks[name]) != locks[name]]
        if engine.worker_sha256 != self.worker_sha256:
            changed.append("the worker")
        if self.inputs_sha256 not in (None, inputs_digest(inputs)):
            changed.append("a model or its data")
        if not self.plan.for_accuracies and self.machine not in (None, machine_of(engine.host)):
            changed.append(
                f"the machine (it was {self.machine}, this is {machine_of(engine.host)})"
            )
        if changed:
            raise ResultsError(
                f"{folder} cannot be resumed: {', '.join(changed)} changed since it started",
                hint="start again with dlsuite run; the finished records are kept",
            )


def machine_of(host: Mapping[str, Any]) -> str:
    """The CPU, the number of its cores, and the GPUs of a machine (worker/host.py)."""
    gpus = [gpu["name"] for gpu in host.get("gpus") or []]
    quota = [f"a quota of {host['cpu_quota']:g} CPUs"] if host.get("cpu_quota") else []
    cores = f"{host.get('cpu')} with {len(host.get('cpus') or [])} cores"
    return ", ".join([cores, *quota, *gpus])


def inputs_digest(inputs: Mapping[Work, Inputs]) -> str:
    """The digest of the models and the inputs of a plan."""
    models = (json.dumps(each.architecture.to_json()) for each in inputs.values())
    return digest([*models, *(each.sha256 for each in inputs.values())])


class OtherVersion(ResultsError):
    """The plan was written by another version of dlsuite."""

    def __init__(self, path: Path, version: object) -> None:
        super().__init__(
            f"{path}: plan of version {version}, this is {VERSION}",
            hint="resume it with the dlsuite version that started it",
        )


_adapter = TypeAdapter(Planned)


def write(folder: Path, planned: Planned) -> None:
    """Write plan.json; raise OSError where that fails.

    A run is written as the position of its trial and its repeat.
    """
    plan = planned.plan
    positions = {trial: position for position, trial in enumerate(plan.trials)}
    values = _adapter.dump_python(planned, mode="json", exclude={"plan": {"runs"}})
    values["runs"] = [[positions[run.trial], run.repeat] for run in plan.runs]
    write_atomically(folder / NAME, json.dumps(values) + "\n")


def read(folder: Path) -> Planned:
    """The plan of a run that can be resumed here: as `parsed`, and its models are known.

    A model that is not of this checkout, and weights that are not here, are those of the run's
    folder.
    """
    planned = parsed(folder)
    for workload in planned.plan.workloads:
        if workload.weights_sha256:
            weight_files.restore(folder, workload.weights_sha256)
        if workload.model not in MODELS:
            _register(sources.inputs_path(folder, workload.model, workload.dataset))
    if unknown := {each.workload.model for each in planned.plan.trials} - set(MODELS):
        raise ResultsError(
            f"{folder / NAME}: unknown model {', '.join(sorted(unknown))}",
            hint="resume it in the checkout that has the model",
        )
    return planned


def _register(path: Path) -> None:
    """Make the model in the description of a run's inputs known; nothing where there is none."""
    with suppress(OSError, LookupError, TypeError, ValueError):
        made = architecture_of(json_file.loads(path.read_bytes())["architecture"])
        MODELS[made.name] = lambda: made


def parsed(folder: Path) -> Planned:
    """Raise ResultsError where there is none, OtherVersion where its version is another."""
    path = folder / NAME
    try:
        if (folder / OLD_NAME).exists():
            raise OtherVersion(folder / OLD_NAME, "6 or older")
        values = json_file.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        if values.get("version") != VERSION:
            raise OtherVersion(path, values.get("version"))
        runs = values.pop("runs")
        values["plan"]["runs"] = []
        planned = _adapter.validate_python(values)
        trials = planned.plan.trials
        found = tuple(Run(trial=trials[position], repeat=repeat) for position, repeat in runs)
        return replace(planned, plan=replace(planned.plan, runs=found))
    except FileNotFoundError:
        raise ResultsError(
            f"{folder} has no plan to resume", hint="dlsuite report shows its records, if any"
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise ResultsError(
            f"{path}: not a plan: {first}", hint="start again with dlsuite run"
        ) from None


def described(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The title of a run's suite, and what was left out of its plan, or why that is unknown.

    Both are empty without a plan, and of another version.
    """
    if not (folder / NAME).exists():
        return "", ()
    try:
        plan = parsed(folder).plan
    except OtherVersion:
        return "", ()
    except ResultsError as error:
        return "", (f"planned runs without a record are unknown: {error}",)
    return plan.title, plan.notes


def notes(folder: Path) -> tuple[str, ...]:
    """What was left out of a run's plan, as `described`."""
    return described(folder)[1]


def missing(folder: Path, done: list[Record]) -> list[str]:
    """The names of planned runs without a record; an empty list without a plan of this version."""
    if not (folder / NAME).exists():
        return []
    try:
        plan = parsed(folder).plan
    except ResultsError:
        return []
    finished = Finished(done)
    return [run.name for group in plan.groups for run in needed(plan, group, finished)]
