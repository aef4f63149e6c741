"""A suite in a file of the user: its models, data and weights may be files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt, ValidationError

from suite.datasets import own
from suite.datasets.own_images import ColorMode, Sizes
from suite.datasets.tables import Missing
from suite.errors import ManifestError
from suite.manifests import catalog, model_files, user_weights
from suite.manifests.losses import Loss
from suite.manifests.strict import Strict, first_problem, load, several
from suite.manifests.suites import SuiteManifest
from suite.messages import Notify
from suite.models import MODELS, mlp


class OwnData(Strict):
    """`dataset` of a workload: a file or folder, with the options of `dlsuite run --data`."""

    path: str
    target: Annotated[tuple[str, ...], BeforeValidator(several)] = ()
    loss: Loss | None = None
    labels: str | None = None
    split: float = Field(default=own.Options.split, ge=0.01, le=0.9)
    missing: Missing = "refuse"
    resize: PositiveInt | None = None
    crop: PositiveInt | None = None
    color_mode: ColorMode | None = None

    def register(self, folder: Path, notify: Notify) -> str:
        """Prepare the data, whose paths are relative to `folder`; return the data set's name."""
        options = own.Options(
            target=self.target,
            loss=self.loss,
            labels=folder / self.labels if self.labels else None,
            split=self.split,
            missing=self.missing,
            sizes=Sizes(resize=self.resize, crop=self.crop, color_mode=self.color_mode),
        )
        return own.register(folder / self.path, options, notify)


def read(path: Path, notify: Notify) -> SuiteManifest:
    """The suite in a file, whose own files are registered; paths are relative to it.

    Raise ManifestError where the file or a model is wrong, DataError where data cannot be used.
    """
    return load(path, SuiteManifest, partial(_with_names, path, notify))


def perceptron(dataset: str) -> str | None:
    """The name of the perceptron for a table of the user; None for other data."""
    data = catalog.own_dataset(dataset)
    if data is None or len(data.shape) != 1:
        return None
    fitted = mlp.fitted(data.shape[0], data.classes)
    MODELS[fitted.name] = lambda: fitted
    return fitted.name


def _with_names(path: Path, notify: Notify, values: Any) -> Any:
    """The values of the file with names in place of files."""
    workloads = values.get("workloads") if isinstance(values, Mapping) else None
    if not isinstance(workloads, tuple):
        return values  # the schema says what is wrong
    return {**values, "workloads": tuple(_workload(path, notify, each) for each in workloads)}


def _workload(path: Path, notify: Notify, values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    found, folder = dict(values), path.parent
    if isinstance(model := found.get("model"), str) and model_files.is_file(model):
        found["model"] = model_files.register(folder / model)
    data = found.get("dataset")
    if isinstance(data, str) and own.is_path(data):
        data = {"path": data}
    if isinstance(data, Mapping):
        try:
            found["dataset"] = OwnData.model_validate(data).register(folder, notify)
        except ValidationError as error:
            raise ManifestError(
                f"{path}: dataset: {first_problem(error)}", hint=f"edit {path}"
            ) from None
        if "model" not in found and (made := perceptron(found["dataset"])):
            found["model"] = made
    if isinstance(weights := found.pop("weights", None), str):
        if found.get("model") not in MODELS:
            raise ManifestError(f"{path}: weights {weights} need a model", hint=f"edit {path}")
        known = MODELS[found["model"]]()
        found["weights_sha256"] = user_weights.register(folder / weights, known)
    return found
