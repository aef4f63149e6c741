"""Training curves: loss and accuracy by epoch and by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import SURFACE, framework_color, framework_shape
from suite.report.figures.figure import (
    Figure,
    Spec,
    category,
    marked,
    name_of,
    quantity,
    spec,
    whole_numbers,
    work_tags,
)
from suite.report.summary import TrialSummary
from suite.results.record import Record

if TYPE_CHECKING:
    from suite.report.run_data import RunData

WIDTH, HEIGHT = 165, 150  # of each of the two plots side by side
TITLES = {"loss": "loss", "accuracy": "accuracy"}


def curves(run: RunData) -> Iterator[Figure]:
    """Two figures, loss and accuracy, for each workload that trained whole epochs."""
    for title, trials in run.by_workload.items():
        points = [point for trial in trials for point in _points(run, trial)]
        for value in TITLES:
            known = [point for point in points if point[value] is not None]
            if not known:
                continue
            last = {row["label"]: row for row in known if row["split"] == "test"}
            yield Figure(
                name=name_of(value, title),
                caption=f"The {value} after each epoch, by epoch and by training time. "
                "Solid: test split; dashed and hollow: training split.",
                description=f"{value} on the test split after the last epoch: "
                + "; ".join(f"{label}: {row[value]:.4g}" for label, row in last.items()),
                spec=_spec(known, value),
                tags=work_tags(trials[0]),
                about=title,
            )


def _points(run: RunData, trial: TrialSummary) -> Iterator[dict[str, Any]]:
    """The evaluations of the trial's runs that are ok."""
    for record in trial.runs.values():
        if record.status == "ok":
            yield from _of_run(record, run.label(trial))


def _of_run(run: Record, label: str) -> Iterator[dict[str, Any]]:
    times = accumulate(epoch.duration_s for epoch in run.epochs)
    for epoch, time_s in zip(run.epochs, times, strict=True):
        shared: dict[str, Any] = {
            "label": label,
            "framework": run.framework,
            "run": run.name,
            "epoch": epoch.epoch,
            "time_s": time_s,
        }
        splits = {
            "test": (epoch.test_loss, epoch.test_accuracy),
            "train": (epoch.train_loss, epoch.train_accuracy),
        }
        for split, (loss, accuracy) in splits.items():
            yield {**shared, "split": split, "loss": loss, "accuracy": accuracy}


def _spec(points: Sequence[dict[str, Any]], value: str) -> Spec:
    frameworks = [row["framework"] for row in points]
    epochs = whole_numbers(row["epoch"] for row in points)
    own = {"zero": False}
    axes = (
        quantity("epoch", "epoch", axis={"values": epochs, "format": "d"}, scale=own),
        quantity("time_s", "training time (s)", scale=own),
    )
    encoding: Spec = {
        "y": quantity(value, TITLES[value], scale=own),
        "detail": [category("run"), category("split")],
        "description": {"field": "mark"},
    }
    plots: list[Spec] = [
        {
            "width": WIDTH,
            "height": HEIGHT,
            "encoding": {"x": x, **encoding},
            "layer": _layers(frameworks),
        }
        for x in axes
    ]
    return spec(data={"values": list(points)}, transform=[marked()], hconcat=plots)


def _layers(frameworks: Sequence[str]) -> list[Spec]:
    """Lines, dashed for the training split, and points, hollow for the training split."""
    color = framework_color(frameworks, legend=True)
    filled = {**color, "test": "datum.split == 'test'"}
    scale = {"domain": ["test", "train"], "range": [[1, 0], [4, 3]]}
    dash = category("split", legend=None, scale=scale)
    return [
        {
            "mark": {"type": "line", "aria": True},
            "encoding": {"strokeDash": dash, "color": color},
        },
        {
            "mark": {"type": "point", "size": 45, "opacity": 1, "aria": True},
            "encoding": {
                "shape": framework_shape(frameworks, legend=True),
                "color": color,
                "fill": {"condition": filled, "value": SURFACE},
            },
        },
    ]
