"""Tables of the user as features and labels."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from suite.datasets import tables
from suite.errors import DataError

ROWS = "age,city,income,bought\n" + "".join(
    f"{20 + n},{('Bern', 'Oslo', 'Rome')[n % 3]},{1000.5 * n},{'yes' if n % 2 else 'no'}\n"
    for n in range(20)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ROWS)
    return path


def read(path: Path, **changes: object) -> tables.Table:
    options = {"target": ("bought",), "loss": None, "split": 0.25, "missing": "refuse", "seed": 1}
    return tables.read(path, **{**options, **changes})


def test_numbers_are_standardized_by_the_training_rows_and_categories_are_one_hot(
    table: Path,
) -> None:
    found = read(table)
    assert found.inputs.shape == (20, 1 + 3 + 1) and found.inputs.dtype == np.float32
    assert found.targets.loss == "cross_entropy" and found.targets.outputs == 2
    assert found.targets.values.tolist() == [0, 1] * 10
    assert found.targets.lines == ("2 classes: False, True",)
    assert found.train.sum() == 15
    for column in (0, 4):
        chosen = found.inputs[found.train, column]
        assert chosen.mean() == pytest.approx(0, abs=1e-6)
        assert chosen.std() == pytest.approx(1, rel=1e-6)
    assert found.inputs[:3, 1:4].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert found.columns[1] == "city: 3 categories"
    assert read(table).train.tolist() == found.train.tolist()


def test_numbers_with_fractions_are_targets_of_squared_errors(table: Path) -> None:
    found = read(table, target=("income",))
    assert found.targets.loss == "mean_squared_error" and found.targets.outputs == 1
    values = found.targets.values
    assert values.shape == (20, 1) and values.dtype == np.float32
    assert values[found.train].mean() == pytest.approx(0, abs=1e-6)
    assert values[found.train].std() == pytest.approx(1, rel=1e-6)
    assert found.inputs.shape == (20, 1 + 3 + 1)  # the former target is 0 or 1


def test_whole_numbers_are_targets_of_squared_errors_where_that_is_asked_for(table: Path) -> None:
    assert read(table, target=("age",)).targets.outputs == 20
    found = read(table, target=("age",), loss="mean_squared_error")
    assert found.targets.values.shape == (20, 1)
    assert "1 numbers as targets, standardized" in found.targets.lines[0]


def test_several_columns_are_labels_or_numbers(table: Path) -> None:
    table.write_text("x,a,b,c\n" + "".join(f"{n},{n % 2},{n // 10},{n / 3}\n" for n in range(20)))
    found = read(table, target=("a", "b"))
    assert found.targets.loss == "binary_cross_entropy" and found.targets.outputs == 2
    assert found.targets.values[11].tolist() == [1, 1]
    assert read(table, target=("a", "c")).targets.loss == "mean_squared_error"


@pytest.mark.parametrize("suffix", ["tsv", "parquet"])
def test_other_forms_give_the_same_table(table: Path, suffix: str) -> None:
    other = table.with_suffix(f".{suffix}")
    if suffix == "tsv":
        other.write_text(ROWS.replace(",", "\t"))
    else:
        duckdb.sql(f"COPY (SELECT * FROM read_csv('{table}')) TO '{other}'")
    assert np.array_equal(read(other).inputs, read(table).inputs)


def with_gaps(table: Path) -> Path:
    lines = ROWS.splitlines()
    lines[3] = "22,,2001.0,no"
    lines[5] = "24,Oslo,,no"
    table.write_text("\n".join(lines) + "\n")
    return table


def test_missing_values_are_refused_by_row_and_column(table: Path) -> None:
    with pytest.raises(DataError, match=r"column city: 1 values are missing, the first in row 3"):
        read(with_gaps(table))
    with pytest.raises(DataError, match="a category has no mean"):
        read(with_gaps(table), missing="mean")


def test_rows_with_missing_values_are_dropped(table: Path) -> None:
    assert read(with_gaps(table), missing="drop").inputs.shape == (18, 5)


def test_a_missing_number_is_the_mean(table: Path) -> None:
    lines = ROWS.splitlines()
    lines[5] = "24,Oslo,,no"
    table.write_text("\n".join(lines) + "\n")
    found = read(table, missing="mean")
    mean = np.mean([1000.5 * n for n in range(20) if n != 4])
    income = np.array([1000.5 * n if n != 4 else mean for n in range(20)])
    expected = (mean - income[found.train].mean()) / income[found.train].std()
    assert found.inputs[4, 4] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "changes", "reason"),
    [
        (ROWS, {"target": ()}, "which column is the target"),
        (ROWS, {"target": ("buoght",)}, "no column 'buoght'; nearest: 'bought'"),
        ("a,b\n1,x\n2,x\n3,x\n", {"target": ("b",)}, "1 values are no classes"),
        ("a,b\n1,x\n", {"target": ("a",)}, "too few for a split"),
        ("bought\nyes\nno\nyes\nno\n", {}, "no column beside bought"),
        (ROWS, {"target": ("bought", "city"), "loss": "cross_entropy"}, "no class"),
        (ROWS, {"target": ("income", "city")}, "column city: texts are no targets"),
        (ROWS, {"target": ("age",), "loss": "binary_cross_entropy"}, "row 1: label 1 is 20.0"),
        ("a,b\n1,2.5\n2,2.5\n3,2.5\n4,2.5\n", {"target": ("b",)}, "have target 1 = 2.5"),
        ("a,b\n1,2.5\n2,inf\n3,1.5\n4,2.5\n", {"target": ("b",)}, "row 2: target 1 is inf"),
        ("a,bought\ninf,yes\n1,no\n2,no\n3,yes\n", {}, "column a, row 1: inf is no number"),
        (
            "a,bought\n2020-01-01,yes\n2020-01-02,no\n",
            {},
            "type date are neither numbers nor categories",
        ),
        ("a,bought\n10:00:00,yes\n11:00:00,no\n", {}, "type time are neither numbers"),
        ("A title\n\n" + ROWS, {}, "no column 'bought'; known: A title"),
        ("a,bought\n1,yes\n#2,no\n3,no\n4,yes\n", {}, "row 2: #2 is no number"),
        ("a,bought\n1,yes\n2,no\n3,yes,4\n", {}, "no column 'bought'; nearest: 'a,bought'"),
        ("a,bought\n1e300,yes\n-1e300,no\n1,yes\n2,no\n", {}, "a: the values are too large"),
        ("a,b\n1,1e300\n2,-1e300\n3,.1\n4,.2\n", {"target": ("b",)}, "values are too large"),
        ("a,bought\n1,yes\n?,no\n2,no\n3,yes\n", {}, r"row 2: \? is no number"),
        ('a,bought\n"0,5",yes\n"1,5",no\n2,no\n', {}, "row 1: 0,5 is a number with a comma"),
        ('a,b\n1,"0,5"\n2,"1,5"\n3,"2,5"\n', {"target": ("b",)}, "b, row 1: 0,5 is a number with"),
        ("", {}, "people.csv"),
        ("a,bought\n" + "".join(f"t{n},{n % 2}\n" for n in range(101)), {}, "101 different texts"),
    ],
)
def test_what_cannot_be_used_is_named(
    table: Path, text: str, changes: dict[str, object], reason: str
) -> None:
    table.write_text(text)
    with pytest.raises(DataError, match=reason) as caught:
        read(table, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["*.csv", "people[1].csv", "p?.csv", "year=2020/people.csv", "a[b]c*/it's $x%.csv"]
)
def test_a_file_is_read_alone_whatever_its_path_is(table: Path, name: str) -> None:
    path = table.parent / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(ROWS)
    found = read(path)
    assert found.inputs.shape == (20, 1 + 3 + 1) and np.array_equal(
        found.inputs, read(table).inputs
    )


def test_bytes_that_are_no_utf8_are_named(table: Path) -> None:
    table.write_bytes(ROWS.replace("Bern", "Z\xfcrich").encode("latin-1"))
    with pytest.raises(DataError, match="This file is not utf-8 encoded"):
        read(table)


@pytest.mark.parametrize(
    ("value", "kind"), [("[n, n]", "list"), ("{'x': n}", "struct"), ("'a'::BLOB", "blob")]
)
def test_columns_of_parquet_that_are_no_numbers_and_no_texts_are_refused(
    tmp_path: Path, value: str, kind: str
) -> None:
    path = tmp_path / "people.parquet"
    duckdb.sql(f"SELECT n % 2 bought, {value} b FROM range(9) t(n)").write_parquet(str(path))
    with pytest.raises(DataError, match=f"column b: values of type {kind}"):
        read(path)


def test_a_line_of_megabytes_is_not_in_the_message(table: Path) -> None:
    table.write_text(",".join(f"c{n}" for n in range(400_000)) + "\n")
    with pytest.raises(DataError, match="Maximum line size") as caught:
        read(table)
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)
