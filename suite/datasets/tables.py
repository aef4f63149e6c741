"""Tables of the user, CSV, TSV or Parquet, as features and labels.

Numbers are standardized by the mean and the standard deviation of the training rows. A category
becomes one feature for each of its values, in their sorted order. A missing value is refused
unless the user says what becomes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError, nearest

Missing = Literal["refuse", "mean", "drop"]
READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
MOST_CATEGORIES = 100  # of a column: more is a name or a number, not a category
MOST_CLASSES = 1000
SHOWN = 3  # rows that a message names


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as arrays, and what it was made of."""

    inputs: NDArray[np.float32]  # (rows, features)
    labels: NDArray[np.int32]
    train: NDArray[np.bool_]  # whether a row is for training
    classes: tuple[str, ...]
    columns: tuple[str, ...]  # a line for each


@dataclass(frozen=True)
class _Column:
    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def is_number(self) -> bool:
        return self.values.dtype.kind in "iufb"


def read(path: Path, *, target: str | None, split: float, missing: Missing, seed: int) -> Table:
    """The table in a file; `split` is the share of the rows that are held out for the test.

    Raise DataError where the file is no table, or has values that cannot be used: with the row,
    counted from 1 without the header, and the column.
    """
    columns = _columns(path)
    if not columns or not len(columns[0].values):
        raise DataError(f"{path} has no rows", hint="a table with a header and one row a sample")
    names = [each.name for each in columns]
    if target is None:
        raise DataError(f"{path}: which column is the class?", hint=f"--target {names[-1]}")
    if target not in names:
        raise DataError(
            f"{path} has no column {target!r}; {nearest(target, names)}", hint="--target"
        )
    columns, rows = _without_missing(path, columns, target, missing)
    labels, classes = _classes(path, next(each for each in columns if each.name == target))
    train = np.random.default_rng(seed).permutation(rows) >= round(split * rows)
    if not 0 < train.sum() < rows:
        raise DataError(
            f"{path}: {rows} rows are too few for a split of {split:g}", hint="--split 0.5"
        )
    found = [_features(path, each, train) for each in columns if each.name != target]
    if not found:
        raise DataError(f"{path} has no column beside {target!r}", hint="a table with features")
    return Table(
        inputs=np.concatenate([values for values, _ in found], axis=1).astype(np.float32),
        labels=labels,
        train=train,
        classes=classes,
        columns=tuple(line for _, line in found),
    )


def _columns(path: Path) -> list[_Column]:
    import duckdb

    function = READERS[path.suffix.lower()]
    try:
        found = duckdb.sql(f"SELECT * FROM {function}(?)", params=[str(path)]).fetchnumpy()
    except duckdb.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(
            f"{path}: {reason}", hint="a table with a header and one row a sample"
        ) from None
    return [_column(path, name, values) for name, values in found.items()]


def _column(path: Path, name: str, values: Any) -> _Column:
    hidden = np.asarray(np.ma.getmaskarray(values))
    plain = np.asarray(np.ma.getdata(values))
    if plain.dtype.kind == "O":
        text = np.array(
            ["" if gone else str(each) for each, gone in zip(plain, hidden, strict=True)]
        )
        hidden = hidden | np.array([each is None for each in plain], bool)
        return _Column(name, text, hidden)
    if plain.dtype.kind not in "iufbU":
        raise DataError(
            f"{path}, column {name}: {plain.dtype} is neither a number nor a category",
            hint="leave the column out, or write it as a number",
        )
    if plain.dtype.kind == "f":
        hidden = hidden | np.isnan(plain)
    return _Column(name, plain, hidden)


def _without_missing(
    path: Path, columns: Sequence[_Column], target: str, missing: Missing
) -> tuple[list[_Column], int]:
    """The columns without missing values, and the number of rows that are left."""
    rows = len(columns[0].values) if columns else 0
    gone = np.zeros(rows, bool)
    filled = []
    for column in columns:
        if not column.missing.any():
            filled.append(column)
        elif missing == "mean" and column.is_number and column.name != target:
            mean = column.values[~column.missing].astype(np.float64).mean()
            values = np.where(column.missing, mean, column.values.astype(np.float64))
            filled.append(_Column(column.name, values, np.zeros(rows, bool)))
        elif missing == "drop":
            gone |= column.missing
            filled.append(column)
        else:
            _refuse_missing(path, column, missing)
    kept = ~gone
    return [_Column(c.name, c.values[kept], c.missing[kept]) for c in filled], int(kept.sum())


def _refuse_missing(path: Path, column: _Column, missing: Missing) -> None:
    places = ", ".join(str(row + 1) for row in np.flatnonzero(column.missing)[:SHOWN])
    count = int(column.missing.sum())
    text = f"{count} values are missing, the first in row {places}"
    if missing == "mean":
        text += "; a category has no mean"
    hint = "--missing drop" if missing == "mean" else "--missing mean, or --missing drop"
    raise DataError(f"{path}, column {column.name}: {text}", hint=hint)


def _classes(path: Path, column: _Column) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    classes, labels = np.unique(column.values, return_inverse=True)
    whole = column.values.dtype.kind != "f" or bool(np.all(column.values % 1 == 0))
    if len(classes) < 2 or len(classes) > MOST_CLASSES or not whole:
        raise DataError(
            f"{path}, column {column.name}: {len(classes)} values are no classes",
            hint=f"a target has 2 to {MOST_CLASSES} classes; numbers are no target yet",
        )
    return labels.astype(np.int32), tuple(str(each) for each in classes)


def _features(path: Path, column: _Column, train: NDArray[np.bool_]) -> tuple[NDArray[Any], str]:
    """The features of a column, (rows, features), and a line that describes it."""
    if not column.is_number:
        _must_be_texts(path, column)
        categories = np.unique(column.values)
        if len(categories) > MOST_CATEGORIES:
            raise DataError(
                f"{path}, column {column.name}: {len(categories)} different texts, at most"
                f" {MOST_CATEGORIES} are categories",
                hint="leave the column out",
            )
        return column.values[:, None] == categories, f"{column.name}: {len(categories)} categories"
    values = column.values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0]) + 1
        raise DataError(f"{path}, column {column.name}, row {row}: infinite", hint="correct it")
    mean, std = values[train].mean(), values[train].std()
    line = f"{column.name}: number, mean {mean:.4g}, standard deviation {std:.4g}"
    return ((values - mean) / (std or 1.0))[:, None], line


def _must_be_texts(path: Path, column: _Column) -> None:
    """Raise DataError where most values of a column of texts are numbers: one is misspelt."""
    numbers = np.array([_is_number(str(each)) for each in column.values])
    if numbers.mean() > 0.5:
        row = int(np.flatnonzero(~numbers)[0]) if not numbers.all() else 0
        raise DataError(
            f"{path}, column {column.name}, row {row + 1}: {column.values[row]!s} is no number,"
            " most of its values are",
            hint="correct it; an empty field is a missing value",
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def lines(table: Table) -> Iterator[str]:
    """What the table has, for the user."""
    rows, features = table.inputs.shape
    yield f"{rows:,} rows, {features} features, {len(table.classes)} classes"
    yield from table.columns
