"""Turns a suite and the command line's options into a plan."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from suite.datasets import library
from suite.datasets.formats import synthetic
from suite.errors import ManifestError, UsageError, nearest, unknown
from suite.manifests import catalog, model_files, papers, user_weights
from suite.manifests.devices import Devices
from suite.manifests.losses import Loss
from suite.manifests.models import problem
from suite.manifests.strict import first_problem
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import BatchNorm, Precision, Scenario, SuiteWorkload, Workload
from suite.messages import Notify
from suite.models import MODELS
from suite.protocol.expansion import expand, without_track
from suite.protocol.plan import Plan, Trial
from suite.runner import suite_files
from suite.runner.alternation import alternating
from suite.runner.processor import has_bfloat16

# The rules of MLPerf Inference: 600 s, at least 662 queries of scenario multi_stream and 24,576
# samples of scenario offline (mlcommons/inference, loadgen/mlperf.conf). One number serves all.
FULL_DURATIONS = {"min_query_s": 600.0, "min_queries": 24_576, "max_query_s": 7200.0}
FULL_DEADLINE_S = 6 * 3600.0  # of a run, with the search and the confirmation of scenario server


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The command line's changes to a suite; None, False and empty values change nothing."""

    frameworks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # of the suite, or files of the user
    data: str | None = None  # instead of the suite's
    loss: Loss | None = None  # of the data
    weights: Path | None = None  # of the user: of the only model
    scenarios: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()
    batch_size: int | None = None
    precision: Precision | None = None
    batch_norm: BatchNorm | None = None
    epochs: int | None = None
    scale: float | None = None  # of the samples that are trained on
    repeats: int | None = None
    seeds: int | None = None
    devices: tuple[str, ...] = ()
    nodes: int | None = None
    proof_steps: int | None = None
    interleave: bool | None = None  # None: as the suite
    verify_runs: bool = False
    full_durations: bool = False

    def check(self) -> None:
        """Raise UsageError where a number is too small, or a scenario unknown."""
        for scenario in self.scenarios:
            if scenario not in get_args(Scenario):
                raise unknown("scenario", scenario, get_args(Scenario))
        if self.scale is not None and not 0 < self.scale <= 1:
            raise UsageError(
                f"--scale is {self.scale:g}; it is above 0 and at most 1", hint="--scale 0.01"
            )
        if self.scale is not None and self.epochs is not None:
            raise UsageError("--scale and --epochs exclude each other", hint="omit one of them")
        minimums = {
            "--batch-size": (self.batch_size, 1),
            "--epochs": (self.epochs, 0),
            "--repeats": (self.repeats, 1),
            "--seeds": (self.seeds, 2),
            "--nodes": (self.nodes, 1),
            "--proof-steps": (self.proof_steps, 1),
        }
        for option, (value, minimum) in minimums.items():
            if value is not None and value < minimum:
                raise UsageError(
                    f"{option} is {value}; the minimum is {minimum}", hint=f"{option} {minimum}"
                )


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
        _check_model(workload.model)
        _check_data(workload, chosen.name)
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
        "workloads": _workloads(suite, options),
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


def _workloads(suite: SuiteManifest, options: RunOptions) -> tuple[SuiteWorkload, ...]:
    """The chosen workloads with the options applied; UsageError where a model is not among them.

    A suite may have a workload in several precisions: with `precision`, one of them is left.
    """
    known = {workload.model for workload in suite.all_workloads}
    own = [model_files.register(Path(each)) for each in options.models if model_files.is_file(each)]
    own = [*dict.fromkeys([*own, *_perceptron(options)])]
    for model in own:
        _check_model(model)
    named = [each for each in options.models if not model_files.is_file(each)]
    for model in named:
        if model not in known:
            raise UsageError(
                f"suite {suite.name!r} has no model {model!r}; {nearest(model, known)}",
                hint=f"dlsuite run zoo --model {model}" if model in MODELS else "dlsuite list",
            )
    changes: dict[str, object] = {
        name: value
        for name, value in (
            ("batch_size", options.batch_size),
            ("precision", options.precision),
            ("dataset", options.data),
            ("batch_norm", options.batch_norm),
            ("epochs", options.epochs),
            ("proof_steps", options.proof_steps),
        )
        if value is not None
    }
    if options.batch_size:
        changes |= {"max_batch_size": None, "larger_batch_sizes": ()}
    if options.repeats:
        changes["trial_budget_s"] = None
    changed = [
        _with(workload, changes)
        for workload in suite.all_workloads
        if (not (options.models or own) or workload.model in named)
        and (not options.scenarios or workload.scenario in options.scenarios)
    ]
    for model in own:
        changed += _of_own_model(suite, model, options, changes)
    if options.scale:
        changed = [_scaled(workload, options.scale) for workload in changed]
    if not changed:
        scenarios = ", ".join(options.scenarios)
        raise UsageError(
            f"suite {suite.name!r} has no workload of scenario {scenarios}",
            hint="dlsuite run inference --scenario single_stream",
        )
    changed = [_with_loss(workload, options.loss) for workload in changed]
    if options.weights:
        changed = _with_weights(changed, options.weights)
    joined = options.precision or options.batch_size  # what differed may be equal now
    return tuple(dict.fromkeys(changed) if joined else changed)


def _with_loss(workload: SuiteWorkload, asked: Loss | None) -> SuiteWorkload:
    """The workload with the loss of its data; generated data have the one that is asked for.

    UsageError where the data have targets for another one.
    """
    if workload.dataset == synthetic.NAME:
        return workload.model_copy(update={"loss": asked or workload.loss})
    loss = library.of(workload).loss
    if asked not in (None, loss):
        raise UsageError(
            f"--loss {asked}: the targets of {workload.dataset} are for {loss}",
            hint="--data synthetic",
        )
    return workload.model_copy(update={"loss": loss})


def _with_weights(workloads: list[SuiteWorkload], path: Path) -> list[SuiteWorkload]:
    """The workloads, which start from the weights in a file; UsageError for several models."""
    models = list(dict.fromkeys(each.model for each in workloads))
    if len(models) > 1:
        raise UsageError(
            f"--weights are those of one model, not of {', '.join(models)}",
            hint=f"--model {models[0]}",
        )
    digest = user_weights.register(path, MODELS[models[0]]())
    return [each.model_copy(update={"weights_sha256": digest}) for each in workloads]


def _perceptron(options: RunOptions) -> list[str]:
    """The model of a table of the user, where no model is named; else none."""
    found = suite_files.perceptron(options.data) if options.data and not options.models else None
    return [found] if found else []


def _of_own_model(
    suite: SuiteManifest, model: str, options: RunOptions, changes: dict[str, object]
) -> list[SuiteWorkload]:
    """The suite's workloads with a model of the user, where their data fit it.

    Where the suite has a workload for models that it does not list, it is the only one. Of those
    that differ only in the number of their samples, that with most is kept. UsageError where none
    fits.
    """
    found: dict[SuiteWorkload, SuiteWorkload] = {}
    datasets = {}
    default = suite.default_workload
    candidates = (
        [SuiteWorkload.model_validate({"model": model, **dict(default)})]
        if default
        else suite.all_workloads
    )
    for workload in candidates:
        replaced = _with(workload, {**changes, "model": model})
        datasets[replaced.dataset] = data = library.of(replaced)
        if options.scenarios and workload.scenario not in options.scenarios:
            continue
        own = MODELS[model]()
        if (data.shape, data.positions) == (own.input_shape, own.positions):
            alike = replaced.model_copy(update={"query_samples": None})
            known = found.setdefault(alike, replaced)
            if (replaced.query_samples or 0) > (known.query_samples or 0):
                found[alike] = replaced
    if not found:
        shapes = (f"{name} {_by(each.shape)}" for name, each in datasets.items())
        raise UsageError(
            f"{model} takes {_by(MODELS[model]().input_shape)}; the data of suite {suite.name!r}:"
            f" {', '.join(shapes)}",
            hint="--data synthetic, or a data set of this shape (dlsuite list)",
        )
    return list(found.values())


def _scaled(workload: SuiteWorkload, scale: float) -> SuiteWorkload:
    """The workload with this share of its training; less than an epoch is a part of the data."""
    epochs = workload.epochs * scale
    if not epochs:
        return workload
    if epochs >= 1:
        return workload.model_copy(update={"epochs": round(epochs)})
    samples = library.describe(library.of(workload)).samples["train"]
    part = max(round(epochs * samples), workload.batch_size)
    return workload.model_copy(update={"epochs": 1, "epoch_samples": part})


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _check_model(model: str) -> None:
    """Raise ManifestError where the description of the model is wrong."""
    if reason := problem(model):
        path = str(
            model_files.FILES.get(model) or f"{MODELS[model].__module__.replace('.', '/')}.py"
        )
        raise ManifestError(f"model {model}: {reason}", hint=f"correct {path}")


def _with(workload: SuiteWorkload, changes: dict[str, object]) -> SuiteWorkload:
    """The workload with changes; UsageError where inference does not have them."""
    changed = workload.model_copy(update=changes)
    if workload.scenario:
        try:
            type(workload).model_validate(changed.model_dump())
        except ValidationError as error:
            raise UsageError(
                f"{workload.model}, scenario {workload.scenario}: {first_problem(error)}",
                hint="--scenario offline has any batch size; the other options are for training",
            ) from None
    return changed


def _check_data(workload: Workload, suite: str) -> None:
    """Raise ManifestError where the model does not fit the data, UsageError where a batch does not.

    A model may have more classes than the dataset, for example for a part of ImageNet; of numbers,
    it has as many outputs.
    """
    data = library.describe(library.of(workload))
    model = MODELS[workload.model]()
    of_classes = data.loss == "cross_entropy"
    fits = data.classes <= model.classes if of_classes else data.classes == model.classes
    if data.shape != model.input_shape or not fits:
        outputs = "classes" if of_classes else "outputs"
        raise ManifestError(
            f"suite {suite!r}: {workload.model} takes {model.input_shape} and has "
            f"{model.classes} {outputs}, {workload.dataset} has {data.shape} and {data.classes}",
            hint="dlsuite list",
        )
    if data.positions != model.positions:
        ours, theirs = (_by(each) or "one" for each in (model.positions, data.positions))
        raise ManifestError(
            f"suite {suite!r}: {workload.model} finds {ours} classes in a sample,"
            f" {workload.dataset} has {theirs}",
            hint="--data synthetic",
        )
    weights = workload.class_weights
    if weights and len(weights) != model.classes:
        raise ManifestError(
            f"suite {suite!r}: {workload.model} has {model.classes} classes,"
            f" class_weights has {len(weights)} numbers",
            hint="one number for each class",
        )
    if (workload.query_samples or 0) > data.samples["test"]:
        raise ManifestError(
            f"suite {suite!r}: query_samples {workload.query_samples} is more than the "
            f"{data.samples['test']} test samples of {workload.dataset}",
            hint="dlsuite list",
        )
    train = data.samples["train"]
    if workload.optimizer and workload.batch_size > train:
        raise UsageError(
            f"batch size {workload.batch_size} is more than the {train} "
            f"training samples of {workload.dataset}",
            hint=f"--batch-size {train} or less",
        )
    if workload.batch_size % workload.accumulate:  # a size of the command or of a series
        size, parts = workload.batch_size, workload.accumulate
        raise UsageError(
            f"a batch of {size} is not divisible into {parts} micro-batches (accumulate)",
            hint=f"--batch-size {size // parts * parts or parts}",
        )
    part = workload.epoch_samples
    if part is not None and not workload.batch_size <= part <= train:
        raise ManifestError(
            f"suite {suite!r}: epoch_samples {part} is less than a batch, or more"
            f" than the {train} training samples of {workload.dataset}",
            hint="dlsuite list",
        )
