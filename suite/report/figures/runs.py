"""Each run of a trial: its blocks over time, and its telemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import COLORS, OTHER
from suite.report.figures.figure import (
    WIDTH,
    Figure,
    Spec,
    category,
    name_of,
    quantity,
    spec,
    tags_of,
)
from suite.report.summary import TrialSummary
from suite.results.logs import samples
from suite.results.record import Record

if TYPE_CHECKING:
    from suite.report.run_data import RunData

HEIGHT = 56  # of one run
MOST_SAMPLES = 170  # of each run in a figure: one for two pixels
MOST_POINTS = 30  # blocks of a run that are drawn as points


def blocks(run: RunData) -> Iterator[Figure]:
    """One figure for each trial that timed blocks, with a row for each run."""
    for trial in run.trials:
        rows = [row for record in trial.runs.values() for row in _blocks(record)]
        if rows:
            warm = sum(row["warmup"] for row in rows)
            yield Figure(
                name=name_of("blocks", trial.record.trial_id),
                caption="The rate of each block over time, a row for each run. Gray: warm-up.",
                description=f"{run.label(trial)}: {len(rows)} blocks of "
                f"{len(trial.runs)} runs, {warm} of them warm-up",
                spec=_blocks_spec(rows, _color(trial)),
                tags=tags_of(trial),
                about=trial.record.trial_id,
            )


def telemetry(run: RunData) -> Iterator[Figure]:
    """One figure for each trial with telemetry samples: memory, cores, and a GPU's power."""
    for trial in run.trials:
        found = {
            record.repeat: [*_samples(samples(run.folder, record), record)]
            for record in trial.runs.values()
        }
        rows = [row for of_run in found.values() for row in of_run]
        kinds = list(dict.fromkeys(row["kind"] for row in rows))
        if rows:
            yield Figure(
                name=name_of("telemetry", trial.record.trial_id),
                caption="Telemetry from the start of each run to its end, a line for each run.",
                description=f"{run.label(trial)}: {', '.join(kinds)} over time, {len(found)} runs",
                spec=_samples_spec(rows, kinds, _color(trial)),
                tags=tags_of(trial),
                about=trial.record.trial_id,
            )


def _color(trial: TrialSummary) -> str:
    return COLORS.get(trial.record.framework, OTHER)


def _blocks(run: Record) -> Iterator[dict[str, Any]]:
    """The blocks of a run, with the time of their middle since the start of the first."""
    rows = run.blocks.rows()
    for block in rows:
        start_s = rows[0].middle_s - rows[0].duration_s / 2
        yield {
            "run": f"run {run.repeat}",
            "time_s": round(block.middle_s - start_s, 4),
            "end_s": round(block.middle_s + block.duration_s / 2 - start_s, 4),
            "samples_per_s": block.samples_per_s,
            "warmup": block.warmup,
            "disturbed": block.disturbed,
        }


def _blocks_spec(rows: Sequence[dict[str, Any]], color: str) -> Spec:
    """A row for each run; points only where they are few, because many make the page large."""
    x = quantity("time_s", "time since the first block (s)")
    y = quantity("samples_per_s", None, axis={"tickCount": 2})
    warm = {
        "transform": [
            {"filter": "datum.warmup"},
            {"aggregate": [{"op": "max", "field": "end_s", "as": "end_s"}], "groupby": ["run"]},
            {"calculate": "0", "as": "start_s"},
        ],
        "mark": {"type": "rect", "color": OTHER, "opacity": 0.25},
        "encoding": {"x": {**x, "field": "start_s"}, "x2": {"field": "end_s"}},
    }
    most = max(Counter(row["run"] for row in rows).values())
    point = {"size": 16, "color": color} if most <= MOST_POINTS else False
    line = {"type": "line", "color": color, "strokeWidth": 1.5, "point": point}
    left_out = {
        "transform": [{"filter": "datum.disturbed"}],
        "mark": {"type": "point", "shape": "cross", "size": 36, "color": OTHER},
        "encoding": {"x": x, "y": y},
    }
    layers: list[Spec] = [warm, {"mark": line, "encoding": {"x": x, "y": y}}]
    if any(row["disturbed"] for row in rows):  # a layer without a point has no extent: a warning
        layers.append(left_out)
    header = {"labelOrient": "top", "labelAnchor": "start", "labelPadding": 4}
    return spec(
        data={"values": list(rows)},
        facet={"row": category("run", header=header)},
        spacing=6,
        spec={
            "width": WIDTH,
            "height": HEIGHT,
            "layer": layers,
        },
    )


def _samples(found: Sequence[dict[str, Any]], run: Record) -> Iterator[dict[str, Any]]:
    """The samples as rows of one kind each; at most MOST_SAMPLES of each kind."""
    kept = found[:: len(found) // MOST_SAMPLES + 1]
    for before, after in pairwise(kept):
        duration_s = (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9
        time_s = (after["monotonic_ns"] - kept[0]["monotonic_ns"]) / 1e9
        gpu = after.get("gpu") or {}
        values = {
            "memory (MiB)": _scaled(after.get("rss_bytes"), 2**20),
            "busy cores": _increase(before, after, "cpu_s", duration_s),
            "CPU power (W)": _increase(before, after, "rapl_j", duration_s),
            "GPU memory (MiB)": _scaled(gpu.get("used_bytes"), 2**20),
            "GPU power (W)": gpu.get("power_w"),
        }
        for kind, value in values.items():
            if value is not None:
                yield {"run": run.repeat, "time_s": round(time_s, 3), "kind": kind, "value": value}


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _increase(
    before: dict[str, Any], after: dict[str, Any], name: str, duration_s: float
) -> float | None:
    """The mean increase per second between two samples; None where one is unknown."""
    first, last = before.get(name), after.get(name)
    if first is None or last is None or duration_s <= 0:
        return None
    return float(last - first) / duration_s


def _samples_spec(rows: Sequence[dict[str, Any]], kinds: list[str], color: str) -> Spec:
    plots = [
        {
            "width": WIDTH,
            "height": HEIGHT,
            "transform": [{"filter": f"datum.kind == '{kind}'"}],
            "mark": {"type": "line", "color": color, "strokeWidth": 1, "opacity": 0.8},
            "encoding": {
                "x": quantity("time_s", "time since the first sample (s)"),
                "y": quantity("value", None, axis={"tickCount": 2}),
                "detail": category("run"),
            },
            "title": {"text": kind, "anchor": "start", "fontSize": 12, "fontWeight": "normal"},
        }
        for kind in kinds
    ]
    return spec(data={"values": list(rows)}, vconcat=plots, spacing=10)
