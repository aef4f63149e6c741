"""Reads the tensors that a worker wrote in the steps of a proof."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from suite.models.layer import Parameter
from suite.worker.sketch import SIZE, sketch

if TYPE_CHECKING:
    from suite.datasets.inputs import Inputs

QUANTITIES = ("logits", "inference", "loss", "gradients", "weights", "statistics")  # mode parity
OWN_LOSS = "own loss"  # that of a rank alone, from its slice of the batch
AVERAGES = "averages"  # in addition, where the weights are averaged
OUTCOME = ("loss", "weights", "statistics")  # closing proof and mode replay
# Keys: "logits" (in training mode), "inference", "loss"; for each parameter "gradients NAME",
# "weights NAME" and "updates NAME" (the change since the initial weights: the first quantity that
# shows a wrong optimizer), and the same two of its average, "weights NAME average"; for each batch
# norm "statistics NAME.mean" and "... .variance".
Tensors = dict[str, NDArray[np.float64]]
UNREADABLE = (OSError, ValueError, EOFError, BadZipFile)  # what numpy raises for a damaged file


# Two threads must not parse the headers of files at once: CPython 3.11 counts the depth of its
# parser over all threads, and then raises SystemError (python/cpython#106905).
PARSING = threading.Lock()


class ProofFailed(Exception):
    """There are no tensors to compare; the message is the reason."""


class ReferencesDisagree(ProofFailed):
    """The two lowerings of a reference differ in the first step: the workload has none."""


def load(path: Path) -> NDArray[np.float64]:
    """The values of a worker's file; ProofFailed where it is missing, damaged or not numbers."""
    values = _load(path)
    try:
        return values.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ProofFailed(f"{path.name}: {error}") from None


def _load(path: Path, mmap_mode: Literal["r"] | None = None) -> NDArray[Any]:
    """The array in a file; ProofFailed where there is none."""
    try:
        with PARSING:
            values: NDArray[Any] = np.load(path, mmap_mode=mmap_mode)
    except UNREADABLE as error:
        raise ProofFailed(f"{path.name}: {error}") from None
    return values


def read(results: Path, prefix: str, quantities: tuple[str, ...], inputs: Inputs) -> Tensors:
    """The files `<prefix>_<quantity>.npy` of a worker that started from the weights of `inputs`."""
    parameters, statistics = inputs.architecture.parameters(), inputs.architecture.statistics()
    tensors: Tensors = {}
    for name in (*quantities, AVERAGES) if inputs.averages else quantities:
        values = load(results / f"{prefix}_{name}.npy")
        if name in ("gradients", "weights"):
            tensors.update(_named(name, values, parameters))
        elif name == AVERAGES:
            averages = _named("weights", values, parameters)
            tensors.update({_of_average(key): value for key, value in averages.items()})
        elif name == "statistics":
            tensors.update(_named(name, values, statistics))
        else:
            tensors[name] = values
    for name, before in initial(inputs).items():
        tensors[f"updates {name}"] = tensors[f"weights {name}"] - before
    return tensors


def read_answers(results: Path) -> Tensors:
    """The logits of all samples, of a worker in mode parity of inference."""
    return {"logits": load(results / "inference.npy")}


def read_ranks(
    folders: list[Path], prefix: str, quantities: tuple[str, ...], inputs: Inputs
) -> list[Tensors]:
    """The tensors of one step as each rank has them, with the folder of each rank's results.

    Gradients and weights are each rank's own. The logits are those of the whole batch, the loss is
    the mean of its slices, and the statistics are those of the first slice. Only rank 0 computes in
    inference mode. Several ranks have OWN_LOSS too.
    """
    first, *others = folders
    of_others = tuple(name for name in quantities if name != "inference")
    found = [read(first, prefix, quantities, inputs)]
    found += [read(folder, prefix, of_others, inputs) for folder in others]
    shared: Tensors = {"loss": np.stack([each["loss"] for each in found]).mean(axis=0)}
    for name in found[0]:
        if name == "logits":
            shared[name] = np.concatenate([each[name] for each in found])
        elif name == "inference" or name.startswith("statistics"):
            shared[name] = found[0][name]
    if others:
        return [each | shared | {OWN_LOSS: each["loss"]} for each in found]
    return [each | shared for each in found]


def sketch_sizes(parameters: tuple[Parameter, ...]) -> list[int]:
    """The number of values in the sketch of each parameter."""
    return [min(parameter.size, SIZE) for parameter in parameters]


def initial(inputs: Inputs) -> Tensors:
    """The sketch of each parameter's initial weights, and of their averages if there are any.

    Raise ProofFailed where they cannot be read.
    """
    parameters = inputs.architecture.parameters()
    found = _sketches(inputs.weights, parameters)
    if inputs.averages:
        averages = _sketches(inputs.averages, parameters)
        found |= {_of_average(name): values for name, values in averages.items()}
    return found


def _of_average(name: str) -> str:
    return f"{name} average"


def _sketches(path: Path, parameters: tuple[Parameter, ...]) -> Tensors:
    """The sketch of each parameter in a file of weights."""
    stops = np.cumsum([parameter.size for parameter in parameters])
    weights = _load(path, mmap_mode="r")
    expected = (sum(parameter.size for parameter in parameters),)
    if weights.shape != expected:
        raise ProofFailed(f"{path.name} has shape {weights.shape}, not {expected}")
    parts = np.split(weights, stops[:-1])
    return {each.name: sketch(part) for each, part in zip(parameters, parts, strict=True)}


def _named(quantity: str, flat: NDArray[np.float64], parameters: tuple[Parameter, ...]) -> Tensors:
    """The sketches of a quantity by name; `flat` has them one after the other."""
    stops = np.cumsum(sketch_sizes(parameters), dtype=int)
    expected = (stops[-1] if len(stops) else 0,)
    if flat.shape != expected:
        raise ProofFailed(f"{quantity} have shape {flat.shape}, not {expected}")
    parts = np.split(flat, stops[:-1])
    return {f"{quantity} {each.name}": part for each, part in zip(parameters, parts, strict=False)}
