"""The timed blocks of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import model_validator

from suite.manifests.strict import Strict


@dataclass(frozen=True, kw_only=True)
class Block:
    """Steps that were timed together; blocks before the series was steady are warm-up."""

    warmup: bool
    monotonic_ns: int  # the block's end, on the monotonic clock that all workers share
    steps: int
    duration_s: float
    samples_per_s: float
    step: int | None = None  # number of steps done at the block's end
    loss: float | None = None  # of the last step
    loss_wait_s: float | None = None  # how long reading the loss waited after the clock stopped
    disturbed: bool = False  # by other processes, the hypervisor or heat
    # How long the worker's threads were ready to run without a CPU, summed over the threads; the
    # CPU time of others on its CPUs; the time that the hypervisor took.
    waited_s: float | None = None
    others_s: float | None = None
    stolen_s: float | None = None

    @property
    def middle_s(self) -> float:
        """The time of the block's middle, on the clock of `monotonic_ns`."""
        return self.monotonic_ns / 1e9 - self.duration_s / 2


class Blocks(Strict):
    """The blocks of a run in columns of equal length, one value for each block.

    Columns are read twice as fast as objects, and a run has up to a hundred blocks.
    """

    warmup: tuple[bool, ...] = ()
    monotonic_ns: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    duration_s: tuple[float, ...] = ()
    samples_per_s: tuple[float, ...] = ()
    step: tuple[int | None, ...] = ()
    loss: tuple[float | None, ...] = ()
    loss_wait_s: tuple[float | None, ...] = ()
    disturbed: tuple[bool, ...] = ()
    waited_s: tuple[float | None, ...] = ()
    others_s: tuple[float | None, ...] = ()
    stolen_s: tuple[float | None, ...] = ()

    @model_validator(mode="after")
    def _equal_lengths(self) -> Blocks:
        if len({len(column) for column in self._columns()}) > 1:
            raise ValueError("the columns differ in length")
        return self

    def _columns(self) -> list[tuple[Any, ...]]:
        return [getattr(self, name) for name in COLUMNS]

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Blocks:
        """The columns of `blocks`."""
        rows = list(blocks)
        return cls(**{name: tuple(getattr(row, name) for row in rows) for name in COLUMNS})

    def rows(self) -> list[Block]:
        """The blocks in order of time."""
        columns = zip(*self._columns(), strict=True)
        return [Block(**dict(zip(COLUMNS, values, strict=True))) for values in columns]


COLUMNS = tuple(Blocks.model_fields)


def counted(blocks: Iterable[Block], min_measure_s: float) -> list[Block]:
    """The blocks that make the rate of a run: the timed ones that are not disturbed.

    Where those are shorter than half of the least duration of a measurement, all timed ones.
    """
    timed = [each for each in blocks if not each.warmup]
    quiet = [each for each in timed if not each.disturbed]
    return quiet if sum(each.duration_s for each in quiet) >= min_measure_s / 2 else timed


def rates_over_time(blocks: Iterable[Block]) -> list[tuple[float, float]]:
    """(time in s, samples per second) of each of these blocks."""
    return [(each.middle_s, each.samples_per_s) for each in blocks]
