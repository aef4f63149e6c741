"""Runs of several machines side by side."""

from pathlib import Path

import pytest

from suite.errors import UsageError
from suite.report import machines, run_data
from suite.report.run_data import RunData
from tests.report.made_run import made_run


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    return run_data.read(made_run(tmp_path))


def faster(run: RunData, factor: float, cpu: str) -> RunData:
    """The same run on another machine."""
    changed = [
        each.model_copy(
            update={
                "samples_per_s": each.samples_per_s and each.samples_per_s * factor,
                "environment": {**each.environment, "cpu": cpu},
            }
        )
        for each in run.records
    ]
    return run_data.of(run.folder, changed)


def test_a_million_samples_cost_the_price_of_their_seconds(run: RunData) -> None:
    row = machines.rows([run], [3.6])[0]
    assert row.cost(1000.0) == pytest.approx(1.0)  # 1,000 s at 0.001 $ each
    assert row.cost(None) is None and machines.rows([run], [None])[0].cost(1.0) is None


def test_rows_of_a_workload_are_by_cost_and_their_interval_is_that_of_the_rate(
    run: RunData,
) -> None:
    other = faster(run, 2.0, "Twice as fast")
    found = dict(machines.tables(machines.rows([run, other], [1.0, 3.0])))
    rows = next(rows for title, rows in found.items() if len(rows) >= 12)
    best = [row for row in rows if row["configuration"] == "tensorflow:graph"]
    assert [row["machine"].split(",")[0] for row in best] == [
        "A made-up processor",
        "Twice as fast",
    ]
    costs = [float(row["$ per million"]) for row in rows]
    assert costs == sorted(costs)
    low, high = map(float, best[0]["its interval"].split(" to "))
    assert low < float(best[0]["$ per million"]) < high
    slow, fast = (float(end.replace(",", "")) for end in best[0]["interval"].split(" to "))
    assert low == pytest.approx(1e6 / 3600 / fast, rel=0.01)
    assert high == pytest.approx(1e6 / 3600 / slow, rel=0.01)


def test_without_a_price_there_is_no_cost_and_the_fastest_is_first(run: RunData) -> None:
    other = faster(run, 2.0, "Twice as fast")
    for _, rows in machines.tables(machines.rows([run, other], [None, None])):
        assert "$ per million" not in rows[0] and "$/h" not in rows[0]
        assert rows[0]["machine"].startswith("Twice as fast")


def test_devices_of_other_sizes_are_in_one_table(run: RunData) -> None:
    """The title has the work; the machine is a column."""
    (title,) = dict(machines.tables(machines.rows([run], [None])))
    assert title == "lenet on mnist, train, batch 64, float32, sgd 0.01, input from host"


@pytest.mark.parametrize(("text", "price"), [("2.5/h", 2.5), ("2.5", 2.5), ("$0.40/h", 0.4)])
def test_a_price_is_dollars_per_hour(text: str, price: float) -> None:
    assert machines.price_of(text) == price


@pytest.mark.parametrize("text", ["0", "0.00/h", "-1", "2,5", "3/day", "", "inf"])
def test_a_price_of_nothing_or_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no price per hour above 0"):
        machines.price_of(text)
