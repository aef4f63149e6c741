"""The losses, which the targets of a data set determine."""

from __future__ import annotations

from typing import Literal

# Of outputs and targets; the formulas are in docs/reference/protocol.md.
Loss = Literal["cross_entropy", "mean_squared_error", "huber", "binary_cross_entropy"]
OF_NUMBERS: tuple[Loss, ...] = ("mean_squared_error", "huber")  # losses whose targets are numbers
