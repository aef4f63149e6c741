"""Tables of the user, CSV, TSV or Parquet, as features and targets.

Numbers are standardized by the mean and the standard deviation of the training rows. A category
becomes one feature for each of its values, in their sorted order. A missing value is refused
unless the user says what becomes of it.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.datasets import targets
from suite.datasets.targets import Targets
from suite.errors import DataError, nearest
from suite.manifests.losses import Loss

Missing = Literal["refuse", "mean", "drop"]
# No line is taken for a title or a comment and left out, and no column comes from the name of a
# folder (year=2020).
CSV = "read_csv(?, skip=0, comment='', hive_partitioning=false)"
READERS = {
    ".csv": CSV,
    ".tsv": CSV,
    ".parquet": "read_parquet(?, hive_partitioning=false)",
}
TEXTS = ("varchar", "enum")  # DuckDB's types of categories
MOST_CATEGORIES = 100  # of a column: more is a name or a number, not a category
MOST_CLASSES = 1000
SHOWN = 3  # rows that a message names
MOST_CHARACTERS = 300  # of DuckDB's reason


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as arrays, and what it was made of."""

    inputs: NDArray[np.float32]  # (rows, features)
    targets: Targets
    train: NDArray[np.bool_]  # whether a row is for training
    columns: tuple[str, ...]  # a line for each


@dataclass(frozen=True)
class _Column:
    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def is_number(self) -> bool:
        return self.values.dtype.kind in "iufb"


def read(
    path: Path,
    *,
    target: tuple[str, ...],
    loss: Loss | None,
    split: float,
    missing: Missing,
    seed: int,
) -> Table:
    """The table in a file; `split` is the share of the rows that are held out for the test.

    Raise DataError where the file is no table, or has values that cannot be used: with the row,
    counted from 1 without the header, and the column.
    """
    columns = _columns(path)
    if not columns or not len(columns[0].values):
        raise DataError(f"{path} has no rows", hint="a table with a header and one row a sample")
    names = [each.name for each in columns]
    if not target:
        raise DataError(f"{path}: which column is the target?", hint=f"--target {names[-1]}")
    for name in target:
        if name not in names:
            raise DataError(
                f"{path} has no column {name!r}; {nearest(name, names)}", hint="--target"
            )
    columns, rows = _without_missing(path, columns, target, missing)
    train = np.random.default_rng(seed).permutation(rows) >= round(split * rows)
    if not 0 < train.sum() < rows:
        raise DataError(
            f"{path}: {rows} rows are too few for a split of {split:g}", hint="--split 0.5"
        )
    by_name = {each.name: each for each in columns}
    found = [_features(path, each, train) for each in columns if each.name not in target]
    if not found:
        raise DataError(
            f"{path} has no column beside {', '.join(target)}", hint="a table with features"
        )
    return Table(
        inputs=np.concatenate([values for values, _ in found], axis=1).astype(np.float32),
        targets=_targets(path, [by_name[name] for name in dict.fromkeys(target)], loss, train),
        train=train,
        columns=tuple(line for _, line in found),
    )


def _columns(path: Path) -> list[_Column]:
    import duckdb

    reader = READERS[path.suffix.lower()]
    try:
        # A name such as data[1].csv or *.csv is one file, not a pattern of several.
        found = duckdb.sql(f"SELECT * FROM {reader}", params=[glob.escape(str(path))])
        types = [kind.id for kind in found.types]
        columns = found.fetchnumpy()
    except duckdb.Error as error:
        # A line of the file, which may have megabytes, is left out; then come suggestions.
        lines = [each for each in str(error).splitlines() if each and each[:9] != "Original "]
        reason = " ".join(lines[:2])[:MOST_CHARACTERS]
        raise DataError(
            f"{path}: {reason}", hint="a table with a header and one row a sample"
        ) from None
    return [
        _column(path, name, values, kind)
        for (name, values), kind in zip(columns.items(), types, strict=True)
    ]


def _column(path: Path, name: str, values: Any, kind: str) -> _Column:
    """A column; `kind` is DuckDB's type. DataError where it has lists, dates or bytes."""
    hidden = np.asarray(np.ma.getmaskarray(values))
    plain = np.asarray(np.ma.getdata(values))
    if plain.dtype.kind == "O" and kind in TEXTS:
        text = np.array(
            ["" if gone else str(each) for each, gone in zip(plain, hidden, strict=True)]
        )
        hidden = hidden | np.array([each is None for each in plain], bool)
        return _Column(name, text, hidden)
    if plain.dtype.kind not in "iufbU":
        raise DataError(
            f"{path}, column {name}: values of type {kind} are neither numbers nor categories",
            hint="leave the column out, or write it as a number",
        )
    if plain.dtype.kind == "f":
        hidden = hidden | np.isnan(plain)
    return _Column(name, plain, hidden)


def _without_missing(
    path: Path, columns: Sequence[_Column], target: tuple[str, ...], missing: Missing
) -> tuple[list[_Column], int]:
    """The columns without missing values, and the number of rows that are left."""
    rows = len(columns[0].values) if columns else 0
    gone = np.zeros(rows, bool)
    filled = []
    for column in columns:
        if not column.missing.any():
            filled.append(column)
        elif missing == "mean" and column.is_number and column.name not in target:
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


def _targets(
    path: Path, columns: Sequence[_Column], loss: Loss | None, train: NDArray[np.bool_]
) -> Targets:
    """The targets in some columns, of the loss that is asked for, or that their values are for."""
    for column in columns:
        _must_have_points(path, column)
    loss = loss or _usual_loss(columns)
    where = f"{path}, column {', '.join(each.name for each in columns)}"
    if loss == "cross_entropy":
        if len(columns) > 1:
            raise DataError(f"{where}: several targets are no class", hint="one --target")
        return _classes(where, columns[0])
    for column in columns:
        if not column.is_number:
            raise DataError(
                f"{path}, column {column.name}: texts are no targets of {loss}",
                hint="--loss cross_entropy",
            )
    values = np.stack([each.values.astype(np.float64) for each in columns], axis=1)
    if loss == "binary_cross_entropy":
        return targets.labels(values, where)
    return targets.numbers(values, train, where, loss)


def _usual_loss(columns: Sequence[_Column]) -> Loss:
    """One column has classes unless its numbers have fractions; several have labels or numbers."""
    if len(columns) == 1:
        values = columns[0].values
        fractions = values.dtype.kind == "f" and bool(np.any(values != np.floor(values)))
        return "mean_squared_error" if fractions else "cross_entropy"
    binary = all(each.is_number and targets.is_binary(each.values) for each in columns)
    return "binary_cross_entropy" if binary else "mean_squared_error"


def _classes(where: str, column: _Column) -> Targets:
    classes, labels = np.unique(column.values, return_inverse=True)
    if len(classes) < 2 or len(classes) > MOST_CLASSES:
        raise DataError(
            f"{where}: {len(classes):,} values are no classes, of which a target has 2 to"
            f" {MOST_CLASSES:,}",
            hint="--loss mean_squared_error takes them as numbers",
        )
    return Targets(
        values=labels.astype(np.int32),
        loss="cross_entropy",
        outputs=len(classes),
        lines=(f"{len(classes)} classes: {_shown(classes)}",),
    )


def _shown(classes: NDArray[Any]) -> str:
    names = [str(each) for each in classes[:SHOWN]]
    return ", ".join(names) + (" ..." if len(classes) > SHOWN else "")


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
    mean, std = targets.scale(values[train])
    if not np.isfinite(std):
        raise DataError(f"{path}, column {column.name}: {targets.TOO_LARGE}", hint="correct it")
    line = f"{column.name}: number, mean {mean:.4g}, standard deviation {std:.4g}"
    return ((values - mean) / (std or 1.0))[:, None], line


def _must_be_texts(path: Path, column: _Column) -> None:
    """Raise DataError where most values of a column of texts are numbers: one is misspelt."""
    _must_have_points(path, column)
    numbers = np.array([_is_number(str(each)) for each in column.values])
    if numbers.mean() > 0.5:
        row = int(np.flatnonzero(~numbers)[0]) if not numbers.all() else 0
        raise DataError(
            f"{path}, column {column.name}, row {row + 1}: {column.values[row]!s} is no number,"
            " most of its values are",
            hint="correct it; an empty field is a missing value",
        )


def _must_have_points(path: Path, column: _Column) -> None:
    """Raise DataError where most texts are numbers with a comma: each would be a category."""
    texts = [] if column.is_number else [str(each) for each in column.values]
    rows = [
        row
        for row, text in enumerate(texts)
        if not _is_number(text) and _is_number(text.replace(",", ""))
    ]
    if len(rows) > len(texts) / 2:
        raise DataError(
            f"{path}, column {column.name}, row {rows[0] + 1}: {texts[rows[0]]} is a number with"
            " a comma",
            hint="write 0.5 and 1000: a point before the decimals, nothing between thousands",
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def lines(table: Table) -> Iterator[str]:
    """What the table has, for the user."""
    rows, features = table.inputs.shape
    yield f"{rows:,} rows, {features} features"
    yield from table.targets.lines
    yield from table.columns
