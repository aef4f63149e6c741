"""The targets of data of the user: classes, numbers, or several labels at once.

What they are determines the loss. Numbers are standardized by the training samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError
from suite.manifests.losses import Loss

TOO_LARGE = "the values are too large: their standard deviation is not finite"
Values = NDArray[np.int32 | np.float32]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of all samples, for a loss."""

    values: Values  # classes (samples, *positions) int32, or (samples, outputs) float32
    loss: Loss
    outputs: int  # of a model: the classes, or the numbers of a sample
    lines: tuple[str, ...] = ()  # what the user should know


def is_binary(values: NDArray[np.generic]) -> bool:
    """Whether all values are 0 or 1."""
    return bool(np.isin(values, (0, 1)).all())


def scale(values: NDArray[np.generic]) -> tuple[Any, Any]:
    """Mean and standard deviation of each column; infinite where the values are too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.mean(axis=0), values.std(axis=0)


def first(wrong: NDArray[np.bool_]) -> tuple[int, int] | None:
    """The row and the column, from 0, of the first value that is wrong; None where none is."""
    places = np.argwhere(wrong)
    return (int(places[0, 0]), int(places[0, 1])) if len(places) else None


def numbers(
    values: NDArray[np.generic], train: NDArray[np.bool_], where: str, loss: Loss
) -> Targets:
    """Targets of a loss of numbers from (samples, outputs), standardized.

    `where` names them in messages. Raise DataError where one is not finite, or all are equal.
    """
    wide = values.astype(np.float64)
    if place := first(~np.isfinite(wide)):
        row, column = place
        raise DataError(
            f"{where}, row {row + 1}: target {column + 1} is {wide[row, column]}", hint="correct it"
        )
    mean, std = scale(wide[train])
    if not np.isfinite(std).all():
        raise DataError(f"{where}: {TOO_LARGE}", hint="correct them")
    if not std.all():
        column = int(np.flatnonzero(std == 0)[0])
        raise DataError(
            f"{where}: all training samples have target {column + 1} = {mean[column]:g}",
            hint="leave it out",
        )
    spread = ", ".join(
        f"{one:.4g} ± {other:.4g}" for one, other in zip(mean[:3], std[:3], strict=True)
    )
    more = " ..." if len(mean) > 3 else ""
    line = f"{len(mean)} numbers as targets, standardized: mean ± standard deviation {spread}{more}"
    return Targets(
        values=((wide - mean) / std).astype(np.float32),
        loss=loss,
        outputs=len(mean),
        lines=(line,),
    )


def labels(values: NDArray[np.generic], where: str) -> Targets:
    """Targets of binary cross-entropy from (samples, outputs), each 0 or 1; else DataError."""
    if place := first(~np.isin(values, (0, 1))):
        row, column = place
        raise DataError(
            f"{where}, row {row + 1}: label {column + 1} is {values[row, column]}, not 0 or 1",
            hint="--loss mean_squared_error",
        )
    share = values.astype(np.float64).mean()
    return Targets(
        values=values.astype(np.float32),
        loss="binary_cross_entropy",
        outputs=values.shape[1],
        lines=(f"{values.shape[1]} labels for each sample, {share:.1%} of them 1",),
    )
