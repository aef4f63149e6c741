"""A folder of pages about all runs: a list, a page for each run, and one for each workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import suite
from suite.errors import ResultsError
from suite.paths import write_atomically
from suite.report import history_table, run_data
from suite.report.figures.figure import Tags, name_of
from suite.report.figures.over_time import over_time
from suite.report.history import Filter, Point, Series, history
from suite.report.html import frame, page
from suite.report.html.parts import Plot, Row, Table
from suite.report.run_data import RunData
from suite.results import index

INDEX = "index.html"
OF_WORKLOAD = (
    *("model", "dataset", "mode", "scenario", "latency_bound_s"),
    *("batch_size", "precision", "optimizer", "input"),
)
OF_MACHINE = ("device", "engine", "host")


def write(results: Path, out: Path) -> list[Path]:
    """Write the site of the runs in `results` to the folder `out`; return its files.

    A run that cannot be read is left out, and the list says why. Raise ResultsError where there are
    no records, OSError where a file cannot be written.
    """
    with index.opened(results) as connection:
        problems = index.problems(connection)
        found = sorted(history(connection, Filter()), key=_workload)
    runs = list(_readable(results, index.fingerprints(results)))
    workloads = {key: [*group] for key, group in groupby(found, key=_workload)}
    pages = {
        Path("runs") / f"{run.folder.name}.html": page.html(run, up=f"../{INDEX}") for run in runs
    }
    pages |= {_path(series[0]): _of_workload(series) for series in workloads.values()}
    pages[Path(INDEX)] = frame.render(
        "site.html.j2",
        choices={},
        version=suite.__version__,
        runs=_runs(runs),
        workloads=_workloads(workloads.values()),
        problems=problems,
    )
    for path, text in pages.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out / path, text)
    return [out / path for path in pages]


def _readable(results: Path, names: Iterable[str]) -> Iterator[RunData]:
    """The runs of these folders, without those that the list of problems names."""
    for name in names:
        try:
            yield run_data.read(results / name)
        except ResultsError:
            continue


def _workload(series: Series) -> tuple[str, ...]:
    values = (series.row.values[name] for name in OF_WORKLOAD)
    return tuple("" if value is None else str(value) for value in values)


def _machine(series: Series) -> tuple[str, ...]:
    return tuple(str(series.row.values[name]) for name in OF_MACHINE)


def _path(series: Series) -> Path:
    return Path("workloads") / f"{name_of(*_workload(series))}.html"


def _of_workload(series: Sequence[Series]) -> str:
    """The page of a workload: for each machine a figure and a table."""
    ordered = sorted(series, key=_machine)
    return frame.render(
        "workload.html.j2",
        choices={
            name: sorted({each.row.values[name] for each in series})
            for name in ("framework", "device")
        },
        version=suite.__version__,
        title=history_table.work_of(series[0].row),
        machines=[_of_machine([*group]) for _, group in groupby(ordered, key=_machine)],
        note=history_table.NOTE,
    )


def _of_machine(series: Sequence[Series]) -> dict[str, Any]:
    row = series[0].row
    kind = "p50 latencies" if row.metric.lower_is_better else "Rates"
    caption = f"{kind} with their 95 % intervals. A ring marks a change point."
    rated = [each for each in series if each.medians]
    drawn = [over_time(rated, name=row.model, caption=caption)] if rated else []
    return {
        "title": f"{row.device}, {row.host}, {row.engine}",
        "plots": [Plot(figure=figure) for figure in drawn],
        "table": Table(caption="All runs, newest first", rows=[*_rows(series)]),
    }


def _rows(series: Sequence[Series]) -> Iterator[Row]:
    """A row for each run of each series, newest first."""
    points = [(each, point) for each in series for point in each.points]
    for each, point in sorted(points, key=lambda pair: pair[1].date, reverse=True):
        cells = history_table.cells(point)
        run = cells.pop("run")
        yield Row(
            cells={"run": run, "configuration": each.configuration, **cells},
            tags=_tags(point),
            address=f"../runs/{run}.html",
        )


def _tags(point: Point) -> Tags:
    return {"framework": point.framework, "device": point.device}


def _runs(runs: Sequence[RunData]) -> Table:
    """The list of runs, newest first."""
    rows = []
    for run in sorted(runs, key=lambda each: each.records[0].run_id, reverse=True):
        record, name = run.records[0], run.folder.name  # the user may have renamed it
        cells = {
            "run": name,
            "suite": record.suite,
            "trials": str(len(run.trials)),
            "proven": str(sum(each.parity.proven for each in run.trials)),
            "runs": str(len(run.records)),
            "not ok": str(sum(each.status != "ok" for each in run.records)),
            "dlsuite": str(record.environment.get("dlsuite", "")),
        }
        rows.append(Row(cells=cells, address=f"runs/{name}.html"))
    return Table(caption="Each run has a page.", rows=rows)


def _workloads(workloads: Iterable[Sequence[Series]]) -> Table:
    """The list of workloads."""
    rows = []
    for series in workloads:
        dates = [point.date for each in series for point in each.points]
        cells = {
            "workload": history_table.work_of(series[0].row),
            "rows": str(len(series)),
            "runs": str(len({point.run_id for each in series for point in each.points})),
            "first": f"{min(dates):%Y-%m-%d}",
            "last": f"{max(dates):%Y-%m-%d}",
            "change points": str(
                sum(point.change_point is not None for each in series for point in each.points)
            ),
        }
        rows.append(Row(cells=cells, address=str(_path(series[0]))))
    return Table(caption="Each workload has a page.", rows=rows)
