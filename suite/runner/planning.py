"""Turns a suite and the command line's options into a plan."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.errors import UsageError
from suite.manifests import catalog, papers
from suite.manifests.devices import Devices
from suite.manifests.suites import SuiteManifest
from suite.messages import Notify
from suite.protocol.expansion import expand, without_track
from suite.protocol.plan import Plan, Trial
from suite.runner import suite_files, workloads
from suite.runner.alternation import alternating
from suite.runner.processor import has_bfloat16
from suite.runner.run_options import RunOptions

# The rules of MLPerf Inference: 600 s, at least 662 queries of scenario multi_stream and 24,576
# samples of scenario offline (mlcommons/inference, loadgen/mlperf.conf). One number serves all.
FULL_DURATIONS = {"min_query_s": 600.0, "min_queries": 24_576, "max_query_s": 7200.0}
FULL_DEADLINE_S = 6 * 3600.0  # of a run, with the search and the confirmation of scenario server


def plan_of(
    suite: str,
    options: RunOptions,
    *,
    device: str,
    separate_nodes: bool = False,
    notify: Notify = lambda text: None,
) -> Plan:
    """The plan of a suite; UsageError where an option does not fit the suite.

    `device` is the device set that the engine's options give; its `separate_nodes` are machines.
    """
    options.check()
    in_file = catalog.is_suite_file(suite)
    read = suite_files.read(Path(suite), notify) if in_file else papers.suite(suite, device)
    chosen, notes = _changed(read, options), tuple[str, ...]()
    if not separate_nodes:  # else this machine's CPU is not that of the workers
        chosen, notes = _without_slow(chosen, device)
    for _, workload in chosen.expanded():
        workloads.check_model(workload.model)
        workloads.check_data(workload, chosen.name)
    plan = expand(
        chosen,
        catalog.frameworks(),
        catalog.tracks(),
        only=options.frameworks,
        devices=_devices(chosen, options, device),
        separate_nodes=separate_nodes,
    )
    plan = plan.only(plan.trials, *notes)
    plan = plan if options.tracks else _without_repeated(plan)
    where_possible = options.interleave is None and read.interleave == "cpu"
    return alternating(plan) if where_possible and not separate_nodes else plan


def _interleave(suite: SuiteManifest, options: RunOptions) -> bool:
    """Whether all trials must be interleaved: `cpu` of a suite is decided by the plan."""
    return suite.interleave is True if options.interleave is None else options.interleave


def _devices(suite: SuiteManifest, options: RunOptions, device: str) -> tuple[str, ...]:
    """The device sets: the user's, else the suite's of the engine's kind, else the engine's.

    Several nodes have each set. Where the suite names several sets, its subject is scaling: several
    nodes have the largest, and the sets on one node stay.

    Raise UsageError where one is not a device set, or the engine has no such devices.
    """
    kind = Devices.parse(device).kind
    try:
        named = [Devices.parse(text) for text in options.devices]
    except ValueError as error:
        raise UsageError(f"--devices {error}", hint="--devices cpu:2") from None
    if other := next((each for each in named if each.kind != kind), None):
        hint = f"--gpus {other.per_node}" if other.kind == "cuda" else "omit --gpus"
        raise UsageError(f"--devices {other}: the workers have device {kind}", hint=hint)
    of_engine = Devices.parse(device)
    of_suite = tuple(each for each in suite.devices if _has(of_engine, Devices.parse(each)))
    of_suite = of_suite if len(of_suite) > 1 or device == kind else ()
    default = of_suite or (device,)
    chosen = options.devices or default
    if options.nodes is None:
        return tuple(dict.fromkeys(chosen))
    on_nodes = [replace(Devices.parse(each), nodes=options.nodes) for each in chosen]
    if len(suite.devices) > 1:
        largest = max(on_nodes, key=lambda each: each.per_node)
        return tuple(dict.fromkeys((*chosen, str(largest))))
    return tuple(dict.fromkeys(map(str, on_nodes)))


def _has(of_engine: Devices, named: Devices) -> bool:
    """Whether an engine has a suite's devices, as far as it is known before it starts."""
    if of_engine.kind != named.kind:
        return False
    return of_engine.per_node in (1, named.per_node) or named.per_node < of_engine.per_node


def _without_slow(suite: SuiteManifest, device: str) -> tuple[SuiteManifest, tuple[str, ...]]:
    """The suite without bf16_mixed where the CPU would emulate it, and a note that says so.

    Where a suite or the user names bf16_mixed as the only precision, it stays.
    """
    kept = tuple(each for each in suite.precisions if each != "bf16_mixed")
    if Devices.parse(device).kind != "cpu" or kept in ((), suite.precisions) or has_bfloat16():
        return suite, ()
    note = "bf16_mixed left out: this CPU has no instructions for bfloat16"
    return suite.model_copy(update={"precisions": kept}), (note,)


def _without_repeated(plan: Plan) -> Plan:
    """The plan without trials that differ from another one only in the name of their track."""
    first: dict[Hashable, Trial] = {}
    for trial in plan.trials:
        runtime = trial.runtime.effective(trial.devices.kind).model_dump_json()
        key = trial.framework, trial.variant, trial.device, runtime, trial.work
        first.setdefault(key, trial)
    kept = set(map(id, first.values()))
    repeated = [trial for trial in plan.trials if id(trial) not in kept]
    if not repeated:
        return plan
    names = ", ".join(dict.fromkeys(trial.configuration for trial in repeated))
    note = f"left out, the same settings as in another track: {names}"
    return plan.only(first.values(), note)


def _changed(suite: SuiteManifest, options: RunOptions) -> SuiteManifest:
    """The suite with the options applied."""
    changes: dict[str, Any] = {
        "workloads": workloads.chosen(suite, options),
        "interleave": _interleave(suite, options),
        "verify_runs": options.verify_runs or suite.verify_runs,
    }
    if options.full_durations:
        changes["measure"] = suite.measure.model_copy(update=FULL_DURATIONS)
        changes["deadline_s"] = FULL_DEADLINE_S
        changes["max_time"] = None
    if options.tracks:
        changes["tracks"] = tuple(dict.fromkeys(options.tracks))
        changes["frameworks"] = tuple(dict.fromkeys(map(without_track, suite.frameworks)))
    if options.proof_steps:
        changes["proof_steps"] = options.proof_steps
    if options.seeds:
        changes["seeds"] = options.seeds
    if options.precision:
        changes["precisions"] = ()
    if options.repeats:
        exactly = {"at_least": options.repeats, "at_most": options.repeats, "trial_budget_s": None}
        changes["repeats"] = suite.repeats.model_copy(update=exactly)
    return suite.model_copy(update=changes)
