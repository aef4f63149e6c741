"""The history of rows: their order, what changed, and where the rate changed."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from suite.errors import UsageError
from suite.report import history_table
from suite.report.explanations import EXPLANATIONS
from suite.report.history import Filter, Series, as_values, history
from suite.report.rows import csv_of
from suite.results import index, store
from suite.results.record import Parity
from tests.report.made_inference import inferred
from tests.results.test_index import write_run

MACHINE = {"cpu": "EPYC", "cpus": [0, 1], "lock_sha256": "a"}
RATES = (100.0, 101.0, 99.0, 100.5, 100.2, 110.0, 111.0, 109.0, 110.5, 110.2)


@pytest.fixture
def results(tmp_path: Path, home: Path) -> Path:
    """Ten runs of one row, whose lock, version and image change once; two of other rows."""
    place = tmp_path / "results"
    for day, rate in enumerate(RATES, start=1):
        later = day > 5
        write_run(
            place,
            f"202601{day:02d}-120000-quick",
            *(rate - 1, rate, rate + 1),
            framework_version="2.1" if later else "2.0",
            image_id="sha256:2" if day > 7 else "sha256:1",
            environment=MACHINE | {"lock_sha256": "b" if later else "a"},
        )
    other = MACHINE | {"cpu": "Xeon"}
    write_run(place, "20260201-120000-quick", 50.0, environment=other)
    names = {"framework": "jax", "variant": "jit", "trial_id": "jax-jit"}
    write_run(place, "20260202-120000-quick", 70.0, environment=MACHINE, **names)
    return place


def series(results: Path, **chosen: object) -> list[Series]:
    with index.opened(results) as connection:
        return history(connection, Filter(**chosen))  # type: ignore[arg-type]


def test_a_row_has_a_series_on_each_machine_in_order_of_time(results: Path) -> None:
    found = series(results)
    assert [(each.configuration, each.row.host, len(each.points)) for each in found] == [
        ("jax:jit", "EPYC, 2 cores", 1),
        ("pytorch:eager", "EPYC, 2 cores", 10),
        ("pytorch:eager", "Xeon, 2 cores", 1),
    ]
    assert found[1].medians == list(RATES)


def test_changes_between_runs_and_change_points_are_marked(results: Path) -> None:
    points = series(results, host="epyc", frameworks=("pytorch",))[0].points
    marked = {number: point.changed for number, point in enumerate(points) if point.changed}
    assert marked == {5: ("version", "lock"), 7: ("image",)}
    changes = {number: each.change_point for number, each in enumerate(points) if each.change_point}
    assert list(changes) == [5]
    assert changes[5].ratio == pytest.approx(1.1, abs=0.01)


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"frameworks": ("jax",)}, 1),
        ({"frameworks": ("jax:jit", "pytorch")}, 3),
        ({"frameworks": ("pytorch:eager/equal",)}, 2),
        ({"variants": ("jit",)}, 1),
        ({"models": ("lenet",), "devices": ("cpu",)}, 3),
        ({"host": "xeon"}, 1),
    ],
)
def test_a_filter_chooses_rows(results: Path, chosen: dict[str, object], count: int) -> None:
    assert len(series(results, **chosen)) == count


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"frameworks": ("jaxx",)}, "no record has framework 'jaxx'; nearest: 'jax'"),
        ({"scenarios": ("offline",)}, "no record has scenario 'offline'"),
        ({"models": ("lenet5",)}, "no record has model 'lenet5'; nearest: 'lenet'"),
        ({"host": "M1"}, "no record has host 'M1'"),
        ({"variants": ("jit",), "frameworks": ("pytorch",)}, "no record fits all"),
        ({"variants": ("jit",), "host": "xeon"}, "no record fits all"),
    ],
)
def test_a_filter_without_a_row_names_what_is_unknown(
    results: Path, chosen: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        series(results, **chosen)


def test_the_table_has_the_newest_runs_and_says_what_it_leaves_out(results: Path) -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(history_table.render(series(results, host="EPYC"), last=6))
    text = captured.get()
    lines = [line.split() for line in text.splitlines()]
    assert lines[next(number for number, line in enumerate(lines) if "2026-01-06" in line)][:7] == [
        "2026-01-06",
        "12:00",
        "20260106-120000-quick",
        "2.1",
        "110",
        "±0.9%",
        "3",
    ]
    (changed,) = (line for line in text.splitlines() if "2026-01-06" in line)
    assert "version, lock" in changed and "+10.0% (p 0.0" in changed
    assert "2026-01-04" not in text and "4 older runs; --last 0 shows them" in text
    assert "of 1 series without a change, 0.05 would show one by chance" in text
    assert "Pettitt's test (1979)" in text
    shown = {name for point in series(results)[1].points for name in history_table.cells(point)}
    assert shown <= EXPLANATIONS.keys()


def test_json_and_csv_have_every_point(results: Path) -> None:
    rows = as_values(series(results))
    assert len(rows) == 12
    assert json.loads(history_table.json_of(rows))[6]["changed"] == "version lock"
    lines = csv_of(rows, [*rows[0]]).splitlines()
    assert len(lines) == 13 and lines[0].startswith(
        "trial_id,cores,interleaved,engine,host,framework"
    )
    assert ",2026-01-06 12:00:00,20260106-120000-quick,3,0,true,110.0," in lines[7]


def test_a_row_with_latencies_follows_p50(tmp_path: Path, home: Path) -> None:
    for day, p50_s in enumerate((300e-6,) * 6 + (330e-6,) * 6, start=1):
        folder = store.RunFolder(tmp_path / f"202601{day:02d}-120000-inference")
        folder.path.mkdir(parents=True)
        for repeat in range(3):
            value = p50_s * (1 + day / 1000 + repeat / 100)
            folder.append(inferred(p50_s=value, repeat=repeat, samples_per_s=100.0))
    (found,) = series(tmp_path)
    changes = [number for number, each in enumerate(found.points) if each.change_point]
    assert changes == [6] and found.points[6].measured.median == pytest.approx(336.6e-6, rel=0.01)
    cells = history_table.cells(found.points[6])
    assert cells["p50"] == "336 µs" and cells["change point"].startswith("+10.")
    assert set(cells) <= EXPLANATIONS.keys()
    console = Console(width=120)
    with console.capture() as captured:
        console.print(history_table.render([found], last=2))
    assert "infer, batch 1, float32, single_stream, cpu" in captured.get()


def test_a_failed_run_hides_no_change_and_an_unproven_one_makes_no_change_point(
    tmp_path: Path, home: Path
) -> None:
    place, unproven = tmp_path / "results", Parity(proven=False, reason="x")
    for day in range(1, 5):
        name = f"202601{day:02d}-120000-quick"
        write_run(place, name, 200.0, environment=MACHINE, parity=unproven, framework_version="2")
    failed = {"framework_version": None, "status": "failed"}
    write_run(place, "20260105-120000-quick", 1.0, environment=MACHINE, **failed)
    for day in range(6, 10):
        name = f"202601{day:02d}-120000-quick"
        write_run(place, name, 100.0 + day, environment=MACHINE, framework_version="3")
    (found,) = series(place)
    assert [point.changed for point in found.points if point.changed] == [("version",)]
    assert not any(point.change_point for point in found.points)
