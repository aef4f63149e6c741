"""The schema of trial.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from suite.manifests.devices import Product
from suite.manifests.losses import Loss
from suite.manifests.workloads import Input, Measure, Optimizer, Scenario
from suite.models.branches import Branches
from suite.models.layer import Layer
from suite.protocol.numbers import Count, Fraction, Positive, PositiveNumber, Shape
from suite.worker.protocol import SCHEMA_VERSION

Mode = Literal["train", "infer", "parity", "replay", "peak"]


class _Part(BaseModel):
    """A part of trial.json: unknown keys are errors."""

    model_config = ConfigDict(defer_build=True, extra="forbid", allow_inf_nan=False)


def _layer_classes(base: type[Layer] = Layer) -> Iterator[type[Layer]]:
    """All kinds of layers: the subclasses that name their kind."""
    for each in base.__subclasses__():
        if "kind" in vars(each):
            yield each
        yield from _layer_classes(each)


def _layer_model(layer: type[Layer]) -> type[BaseModel]:
    """The model of a kind of layer, made from the fields of its class."""
    types = get_type_hints(layer)
    own: dict[str, Any] = {each.name: (types[each.name], ...) for each in fields(layer)}
    if issubclass(layer, Branches):
        own["branches"] = (list[list["LayerJson"]], Field(min_length=2))
    return create_model(
        layer.__name__,
        __base__=_Part,
        __module__=__name__,
        __doc__=layer.__doc__,
        **{"kind": (Literal[layer.kind], ...), "input_shape": (Shape, ...), **own},
    )


if TYPE_CHECKING:
    LayerJson = dict[str, Any]
else:
    LayerJson = Annotated[
        reduce(or_, map(_layer_model, sorted(_layer_classes(), key=lambda each: each.kind))),
        Field(discriminator="kind"),
    ]


class ArchitectureJson(_Part):
    """A model as a list of layers; `branches` of a layer hold lists of layers again."""

    name: str
    input_shape: Shape
    classes: Positive
    layers: list[LayerJson] = Field(min_length=1)


class NamedShape(_Part):
    """A tensor of the model, in canonical layout (docs/reference/protocol.md)."""

    name: str
    shape: Shape


class Normalization(_Part):
    """Per channel: (byte / 255 - mean) / std."""

    mean: list[float]
    std: list[PositiveNumber]


class Paths(_Part):
    """Files and folders as the worker sees them."""

    data: str
    weights: str
    statistics: str
    order: str
    results: str
    images: str | None = Field(default=None, description="Only with input loader.")
    interleaving: str | None = Field(default=None, description="Only in interleaved runs.")
    state: str | None = Field(
        default=None, description="Only in mode replay, and in a reference in mode parity."
    )


class TrialFile(_Part):
    """trial.json: the task of one worker."""

    schema_version: Literal[SCHEMA_VERSION]  # type: ignore[valid-type]
    trial_id: str
    repeat: Count
    framework: str
    variant: str
    track: str
    mode: Mode
    architecture: ArchitectureJson
    parameters: list[NamedShape] = Field(description="In the order of weights.npy.")
    statistics: list[NamedShape] = Field(
        description="Running means and variances of batch norms: <layer>.mean, <layer>.variance."
    )
    input: Input = Field(
        description="Where each batch comes from: disk (read from the mapped file), host (gathered "
        "from memory), device (the first batches, repeatedly), loader (the framework's own loader)."
    )
    batch_size: Positive = Field(
        description="Samples of a training step; in inference, of one call of the model."
    )
    accumulate: Positive = Field(
        description="Equal parts of the batch, which a training step takes one after the other; it "
        "has the mean of their gradients. In inference 1."
    )
    scenario: Scenario | None = Field(
        description="Inference: how queries arrive (docs/how-to/inference.md); null: training."
    )
    query_samples: Positive | None = Field(
        description="Inference: the queries take this many samples, from the start of the test "
        "split; null: training."
    )
    latency_bound_s: PositiveNumber | None = Field(
        description="Scenario server: of 99 % of the queries; otherwise null."
    )
    precision: Literal["float32", "float64", "bf16_mixed", "bf16_simulated", "tf32_simulated"]
    loss: Loss = Field(description="docs/reference/protocol.md, Losses.")
    label_smoothing: Fraction = Field(
        description="Of cross_entropy: docs/reference/protocol.md, Losses."
    )
    class_weights: list[PositiveNumber] | None = Field(
        description="Of cross_entropy, one for each class; null: docs/reference/protocol.md, "
        "Losses, without weights."
    )
    optimizer: Optimizer | None = Field(
        description="The formulas are in docs/reference/optimizers.md. Inference has none."
    )
    device: str
    cpus: list[Count] = Field(
        min_length=1,
        description="The logical CPUs to run on; each rank of the node takes an equal part.",
    )
    threads: Positive | None = Field(description="Of a rank; null: the framework's default.")
    tf32: bool | None = Field(
        description="Whether a GPU may multiply float32 in TF32; null: the framework's default."
    )
    environment: dict[str, str] = Field(
        description="Variables that are set before the worker starts, for information."
    )
    settings: dict[str, bool | int | str] = Field(
        description="The track's settings for this framework; a worker refuses unknown ones."
    )
    seed: int
    world_size: Positive = Field(description="Number of ranks, processes with a device each.")
    nodes: Positive = Field(description="Number of machines, with as many ranks on each.")
    node: Count = Field(
        description="Number of this machine; its first rank is the next after "
        "those of the machines before it."
    )
    rendezvous: str | None = Field(
        description="host:port at which rank 0 waits for the others; null with one rank, or where "
        "a launcher's variables give it."
    )
    slices: Positive = Field(
        description="Equal slices of a batch, each with its own statistics of batch norm."
    )
    epochs: Count = Field(description="Mode train: whole epochs; 0: stop when the rate is known.")
    steps: Count = Field(description="Modes parity and replay.")
    closing: bool = Field(description="Mode train: end with the closing proof.")
    first_step: Count = Field(description="Mode replay: number of the first step, from 0.")
    draws: Positive = Field(
        description="Mode replay: how often to do the steps, with other dropout masks each time. "
        "A reference in mode parity: how often, from other perturbed weights each time."
    )
    precisions: list[Product] = Field(description="Mode peak: precisions of matrix products.")
    measure: Measure
    normalize: Normalization
    paths: Paths
