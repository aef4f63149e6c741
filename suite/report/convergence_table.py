"""The accuracies of a run with several seeds, as a table, as Markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from suite.report.convergence import MARGIN, Row, in_float32
from suite.report.numbers import UNKNOWN
from suite.report.table import markdown_of, of_rows

LEFT = ("framework", "precision", "against", "equivalent")
NOTE = (
    "Accuracy on the test split after the last epoch: mean and standard deviation (sd) over seeds. "
    "Differences are paired by seed, in percentage points: bf16_mixed against the same framework "
    "in float32, float32 against the median of the others in float32. equivalent: yes where the "
    f"90 % interval is within ±{MARGIN} points (TOST at 5 %), no where it is outside, else not "
    "shown."
)


def render(rows: Iterable[Row]) -> RenderableType:
    """One table for each model, with the reasons of missing values below it."""
    parts: list[RenderableType] = []
    for title, group in groupby(rows, key=title_of):
        found = list(group)
        table = of_rows(title, [cells_of(row) for row in found], left=LEFT)
        parts += [table, *(Text(line) for line in notes_of(found))]
    return Group(*parts, Text(NOTE))


def markdown(rows: Sequence[Row]) -> str:
    """One table of all models, with the reasons of missing values below it."""
    cells = [{"model": row.record.workload.model, **cells_of(row)} for row in rows]
    table = markdown_of(cells)
    titles = "\n".join(f"- {title}" for title in dict.fromkeys(map(title_of, rows)))
    notes = "\n".join(f"- {line}" for line in notes_of(rows))
    return "\n\n".join(part for part in (titles, NOTE, table, notes) if part)


def as_values(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows as values for JSON: accuracies in %, differences in percentage points."""
    return [_values(row) for row in rows]


def title_of(row: Row) -> str:
    """A title that describes the work, without the precision."""
    record, workload = row.record, in_float32(row.record.workload)
    epochs = f"{workload.epochs} epoch{'s' if workload.epochs > 1 else ''}"
    return (
        f"{workload.model} on {workload.dataset}, {epochs}, batch {workload.batch_size}, "
        f"{workload.way}, {record.device}"
    )


def name_of(row: Row) -> str:
    """The configuration, the model and the precision of a row."""
    workload = row.record.workload
    return f"{row.record.configuration} {workload.model} {workload.precision}"


def cells_of(row: Row) -> dict[str, str]:
    """The cells of a row, by column."""
    test, bfloat16 = row.equivalence, row.record.workload.precision != "float32"
    mean = test.mean if test else None
    interval = UNKNOWN
    if test and test.ci_low is not None and test.ci_high is not None:
        interval = f"{test.ci_low:+.3f} to {test.ci_high:+.3f}"
    return {
        "framework": row.record.configuration,
        "precision": row.record.workload.precision,
        "seeds": _seeds(row),
        "accuracy": UNKNOWN if row.mean is None else f"{row.mean:.2f} %",
        "sd": UNKNOWN if row.deviation is None else f"{row.deviation:.2f}",
        "against": UNKNOWN if test is None else "float32" if bfloat16 else "others",
        "difference": UNKNOWN if mean is None else f"{mean:+.3f}",
        "90 % interval": interval,
        "equivalent": _verdict(row),
    }


def _seeds(row: Row) -> str:
    """The number of compared seeds, and of all that the row has where that is larger."""
    own = len(row.accuracies)
    pairs = row.equivalence.pairs if row.equivalence else own
    return str(own) if pairs == own else f"{pairs} of {own}"


def _verdict(row: Row) -> str:
    """Whether it is equivalent; the status of its runs where none is ok."""
    if not row.accuracies and row.problem:
        return row.problem.status
    return row.equivalence.verdict if row.equivalence else UNKNOWN


def notes_of(rows: Iterable[Row]) -> Iterator[str]:
    """Why runs have no accuracy, and which are not proven to be the same work."""
    for row in rows:
        if row.problem and row.problem.error:
            yield f"{name_of(row)}: {row.problem.status}: {row.problem.error.message}"
        unproven = [each for each in row.records if each.status == "ok" and not each.parity.proven]
        if unproven:
            seeds = ", ".join(str(each.seed) for each in unproven)
            reason = unproven[0].parity.reason
            yield f"{name_of(row)}: not proven to be the same work (seed {seeds}): {reason}"


def _values(row: Row) -> dict[str, Any]:
    record, test = row.record, row.equivalence
    return {
        "framework": record.framework,
        "variant": record.variant,
        "track": record.track,
        "device": record.device,
        "workload": record.workload.model_dump(),
        "accuracies": dict(row.accuracies),
        "mean": row.mean,
        "deviation": row.deviation,
        "pairs": test.pairs if test else 0,
        "difference": test.mean if test else None,
        "ci_low": test.ci_low if test else None,
        "ci_high": test.ci_high if test else None,
        "margin": MARGIN,
        "equivalent": _verdict(row),
    }
