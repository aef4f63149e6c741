"""The manifest of a dataset: its shape, its files with their SHA-256, and their sources."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from suite.manifests.losses import Loss
from suite.manifests.strict import Name, Strict

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
Role = Annotated[str, Field(pattern=r"^(text|(train|test)_(images|labels|[0-9]+))$")]
T = TypeVar("T")


class DataFile(Strict):
    name: str
    sha256: Sha256


class HttpsSource(Strict):
    kind: Literal["https"]
    url: str
    suffix: Literal["", ".gz"] = ""
    archive: str | None = None  # a tar archive of all files; None: each file has its own URL
    folder: str = ""  # the files' folder in the archive


class NpmSource(Strict):
    kind: Literal["npm"]
    package: str
    version: str
    folder: str


class Normalize(Strict):
    """(value - mean) / std, where a pixel's value is scaled to 0..1.

    Images have one mean and one standard deviation for each channel, tables one for all features.
    """

    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]


# The fields that a format requires. Fields of other formats are errors.
FORMAT_FIELDS = {
    "idx": ("samples", "files"),
    "cifar": ("samples", "files"),
    "generated": ("samples", "prepared"),
    "image_folder": (),
    "synthetic": ("samples",),
    "text": ("files", "tokens"),
    "own": ("samples",),
}
IDX_ROLES = {"train_images", "train_labels", "test_images", "test_labels"}


class DatasetManifest(Strict):
    """manifests/datasets/<name>.yaml

    `idx` and `cifar` are files of a source. `generated` is computed here from a fixed seed.
    `image_folder` is a folder of the user; its numbers of samples and classes are known once it is
    prepared (`library.describe`). `own` is a file of the user (suite/datasets/own.py).
    `text` is one file of bytes, the first ones for training; its shape and samples depend on the
    model (`library.of`).
    """

    name: Name
    title: str
    format: Literal["idx", "cifar", "generated", "image_folder", "synthetic", "text", "own"]
    # (features), (channels, height, width), or (length) of a sequence of tokens
    shape: tuple[PositiveInt, ...] = Field(default=(), validate_default=True)
    classes: PositiveInt  # or the number of outputs, where the targets are no classes
    loss: Loss = "cross_entropy"  # which the targets are for
    positions: tuple[PositiveInt, ...] = ()  # the number of a sample's labels, if several
    vocabulary: PositiveInt | None = None  # of tokens, where it is not the number of classes
    padding_id: NonNegativeInt | None = None  # the token that fills shorter sequences, if any
    normalize: Normalize = Field(default=Normalize(mean=(), std=()), validate_default=True)
    samples: dict[Split, PositiveInt] = Field(default={}, validate_default=True)
    tokens: dict[Split, PositiveInt] = Field(default={}, validate_default=True)
    files: dict[Role, DataFile] = Field(default={}, validate_default=True)
    prepared: dict[str, Sha256] = Field(default={}, validate_default=True)  # of the .npy files
    sources: tuple[Annotated[HttpsSource | NpmSource, Field(discriminator="kind")], ...] = ()

    @property
    def holds_tokens(self) -> bool:
        """Whether its samples are sequences of tokens, which are not normalized."""
        return not self.normalize.mean

    @field_validator("shape")
    @classmethod
    def _fits_the_format(cls, value: tuple[int, ...], others: ValidationInfo) -> tuple[int, ...]:
        form = others.data.get("format")
        if form in ("synthetic", "own"):
            return value
        if form == "text":
            if value:
                raise ValueError("format text has no shape: its sequences are as long as the model")
            return value
        if len(value) != (1 if form == "generated" else 3):
            expected = "1 number (features)" if form == "generated" else "channels, height, width"
            raise ValueError(f"format {form} takes {expected}")
        if form == "image_folder" and (value[0], value[1]) != (3, value[2]):
            raise ValueError("format image_folder takes 3 channels and a square")
        return value

    @field_validator("normalize")
    @classmethod
    def _one_for_each_channel(cls, value: Normalize, others: ValidationInfo) -> Normalize:
        shape = others.data.get("shape", ())
        expected = shape[0] if len(shape) == 3 else 1
        form = others.data.get("format")
        if form == "text" and value.mean:
            raise ValueError("format text has no normalize: tokens are not normalized")
        if form == "synthetic" and not value.mean:  # tokens
            return value
        if shape and {len(value.mean), len(value.std)} != {expected}:
            raise ValueError(f"shape {shape} takes {expected} mean and std")
        return value

    @field_validator("samples", "tokens", "files", "prepared", "sources")
    @classmethod
    def _required_or_absent(cls, value: T, others: ValidationInfo) -> T:
        name, form = str(others.field_name), others.data.get("format")
        fields = FORMAT_FIELDS.get(str(form))
        if fields is None:
            return value  # the format itself is invalid
        if name in fields and not value:
            raise ValueError(f"format {form} needs {name}")
        if value and name not in fields and not (name == "sources" and "files" in fields):
            raise ValueError(f"format {form} has no {name}")
        return value

    @field_validator("samples", "tokens", "files", "prepared")
    @classmethod
    def _complete(cls, value: dict[str, T], others: ValidationInfo) -> dict[str, T]:
        required = set[str](SPLITS)
        found = {key.partition("_")[0] for key in value}
        if others.field_name == "files" and others.data.get("format") == "idx":
            required, found = IDX_ROLES, set(value)
        if others.field_name == "files" and others.data.get("format") == "text":
            required, found = {"text"}, set(value)
        if value and found != required:
            raise ValueError(f"{', '.join(sorted(required))} are needed, and nothing else")
        return value
