"""The workloads of a suite that a run has, with the command line's options applied."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from suite.datasets import library
from suite.datasets.formats import synthetic
from suite.errors import ManifestError, UsageError, nearest
from suite.manifests import model_files, user_weights
from suite.manifests.losses import Loss
from suite.manifests.models import problem
from suite.manifests.strict import first_problem
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import SuiteWorkload, Workload
from suite.models import MODELS
from suite.runner import suite_files
from suite.runner.run_options import RunOptions


def chosen(suite: SuiteManifest, options: RunOptions) -> tuple[SuiteWorkload, ...]:
    """The chosen workloads with the options applied; UsageError where a model is not among them.

    A suite may have a workload in several precisions: with `precision`, one of them is left.
    """
    known = {workload.model for workload in suite.all_workloads}
    own = [model_files.register(Path(each)) for each in options.models if model_files.is_file(each)]
    own = [*dict.fromkeys([*own, *_perceptron(options)])]
    for model in own:
        check_model(model)
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


def check_model(model: str) -> None:
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


def check_data(workload: Workload, suite: str) -> None:
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
