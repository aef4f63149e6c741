"""The models and datasets of a run as its folder describes them, so that no checkout is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.errors import DlsuiteError
from suite.manifests import catalog, json_file
from suite.models import MODELS, BrokenModel
from suite.models.architecture import Architecture
from suite.models.from_json import architecture_of
from suite.runner import sources
from suite.runner.verification import age
from suite.runner.verification.findings import Note, Outcome, finding

if TYPE_CHECKING:
    from suite.parity.certificates import Certificate


@dataclass(frozen=True, kw_only=True)
class Described:
    """A model, and the number of training samples of its dataset, where it is known."""

    architecture: Architecture
    train_samples: int | None = None
    origin: str | None = None  # where the data came from
    dataset: dict[str, Any] | None = None


Known = dict[tuple[str, str], Described]  # by model and dataset


def known(
    folder: Path, pairs: Iterable[tuple[str, str]], certificates: Mapping[str, Certificate]
) -> tuple[Known, list[Outcome]]:
    """What is known of each pair of a model and a dataset: from the run, its certificates or here.

    A model that differs from the one of a certificate is a finding, from the one here a note.
    """
    found: Known = {}
    outcomes: list[Outcome] = []
    proven = {each.model: each.of.get("model") for each in certificates.values()}
    for model, dataset in sorted(set(pairs)):
        path = sources.inputs_path(folder, model, dataset)
        where = path.relative_to(folder).as_posix()
        described = None
        if path.is_file():
            try:
                described = _read(path)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                outcomes.append(finding(where, "content", "a model and its dataset", error))
        else:
            outcomes.append(age.missing(folder, where, "its model and its dataset"))
        described = described or _of_certificate(proven.get(model)) or _here(model)
        if described is None:
            text = f"model {model} is neither in the run nor here, so its work is not checked"
            outcomes.append(Note(where=where, text=text))
            continue
        found[model, dataset] = described
        outcomes += _agrees(where, model, described, proven.get(model))
        outcomes += _dataset(where, dataset, described.dataset)
    return found, outcomes


def _read(path: Path) -> Described:
    values = json_file.loads(path.read_bytes())
    samples = (values["dataset"].get("samples") or {}).get("train")
    architecture = architecture_of(values["architecture"])
    return Described(
        architecture=architecture,
        train_samples=samples,
        origin=str(values["origin"]),
        dataset=values["dataset"],
    )


def _of_certificate(text: str | None) -> Described | None:
    try:
        return Described(architecture=architecture_of(json_file.loads(text))) if text else None
    except (LookupError, TypeError, ValueError):
        return None


def _here(model: str) -> Described | None:
    try:
        return Described(architecture=MODELS[model]())
    except (BrokenModel, KeyError):
        return None


def _agrees(
    where: str, model: str, described: Described, certified: str | None
) -> Iterator[Outcome]:
    """Whether the model is that of the certificates, and that of this version."""
    text = json.dumps(described.architecture.to_json())
    if certified is not None and certified != text:
        yield finding(where, "architecture", "that of the certificates", "another one")
    here = _here(model)
    if here is not None and here.architecture != described.architecture:
        yield Note(where=where, text=f"not the model {model} of this version of dlsuite")


def _dataset(where: str, name: str, described: dict[str, Any] | None) -> Iterator[Outcome]:
    """Whether a dataset of files has those, and the samples, that this version knows."""
    if described is None or not described.get("files"):
        return
    try:
        here = catalog.dataset(name).model_dump(mode="json")
    except DlsuiteError:
        return  # of the user, or of another version
    for part in ("files", "samples", "normalize"):
        if here[part] != described.get(part):
            text = f"{part} of {name} are not those of this version of dlsuite"
            yield Note(where=where, text=text)
