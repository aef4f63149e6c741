"""The error of each tensor of a certificate as a share of its tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf, isfinite, log10
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import framework_color
from suite.report.figures.figure import (
    ROW,
    WIDTH,
    Figure,
    Spec,
    marked,
    name_of,
    quantity,
    row_texts,
    rows_by,
    spec,
    work_tags,
)
from suite.results.certificate import Certificate

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST = 60  # tensors of a trial in a figure: those nearest to their tolerance
# Shares outside of these are drawn at them: a logarithmic axis has no zero and no infinity.
LEAST, LARGEST = 1e-9, 100.0


def parity(run: RunData) -> Iterator[Figure]:
    """One figure for each workload with certificates that are still kept."""
    for title, trials in run.by_workload.items():
        rows: list[dict[str, Any]] = []
        for trial in trials:
            certificate = run.certificates.get(trial.record.trial_id)
            of_trial = {"label": run.label(trial), "framework": trial.record.framework}
            rows += [
                {**of_trial, "share": min(max(share, LEAST), LARGEST)}
                for _, _, _, share in tensors(certificate)[:MOST]
            ]
        if rows:
            yield Figure(
                name=name_of("parity", title),
                caption="The largest error of each tensor over all compared steps, as a share of "
                "its tolerance. At 1 it is no longer the same work. Of each row, the "
                f"{MOST} tensors nearest to their tolerance.",
                description="; ".join(
                    f"{label}: at most {worst:.2g}" for label, worst in _worst(rows)
                ),
                spec=_spec(rows),
                tags=work_tags(trials[0]),
                about=title,
            )


def tensors(certificate: Certificate | None) -> list[tuple[str, float, float, float]]:
    """Each tensor's name, relative error, tolerance and share, in the step with the largest share.

    Those nearest to their tolerance are first.
    """
    found: dict[str, tuple[float, float, float]] = {}
    for step, errors in enumerate(certificate.errors if certificate else ()):
        assert certificate
        raised = certificate.raised[step] if certificate.raised else {}
        for name, error in errors.items():
            tolerance = raised.get(name, certificate.tolerance)
            share = error / tolerance if isfinite(error) else inf
            values = error, tolerance, share
            found[name] = max(values, found.get(name, values), key=lambda each: each[2])
    rows = [(name, *values) for name, values in found.items()]
    return sorted(rows, key=lambda row: -row[3])


def _worst(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for label in dict.fromkeys(row["label"] for row in rows):
        yield label, max(row["share"] for row in rows if row["label"] == label)


def _spec(rows: list[dict[str, Any]]) -> Spec:
    x = quantity("share", "error as a share of the tolerance", scale={"type": "log"})
    smallest = floor(log10(min(row["share"] for row in rows)))
    x["axis"] = {"format": "~e", "values": [10.0**power for power in range(smallest, 3)]}
    labels = [label for label, _ in _worst(rows)]
    y = rows_by("label", labels)
    texts = {**row_texts("label"), "transform": [{"aggregate": [], "groupby": ["label", "mark"]}]}
    texts["encoding"]["y"] = y
    limit = {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 1}}}
    errors = {
        "mark": {"type": "tick", "thickness": 1.5, "size": 14, "aria": True},
        "encoding": {
            "x": x,
            "y": y,
            "color": framework_color(row["framework"] for row in rows),
            "description": {"field": "mark"},
        },
    }
    size = {"width": WIDTH, "height": {"step": ROW}}
    return spec(data={"values": rows}, transform=[marked()], layer=[errors, limit, texts], **size)
