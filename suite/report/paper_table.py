"""The tables of a published comparison and the run that repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.text import Text

from suite.manifests.papers import Claim
from suite.report.numbers import UNKNOWN, number, yes_no
from suite.report.paper import JudgedClaim, JudgedFinding, Paper, Ratio, Row, Value
from suite.report.table import SAME_WORK, Fitted, markdown_of, of_rows

LEFT = (
    "figure",
    "model",
    "hardware",
    "framework",
    "finding",
    "claim",
    "verdict",
    "subject",
    "here",
)
FOLDED = ("finding", "claim", "published setting", "here", "hardware")
NOTES = (
    "measured: by this run; epoch_s and train_s are the published number of samples over the"
    " measured rate. interval: of the measured figure.",
    "A claim is a ratio of speeds (samples per second, or 1 / latency), of accuracies, or of the"
    " relative standard deviations of the durations of epochs without the first one. Its interval"
    " has 90 %: each end is a one-sided limit of 95 %. It holds where the whole interval is on the"
    " stated side, does not hold where the whole interval is on the other side.",
)


def render(paper: Paper, width: int) -> Group:
    """The tables for the terminal: figures that were measured, findings, what differs."""
    parts: list[Fitted | Text] = [Text(f"{paper.manifest.title}\n{paper.manifest.source}")]
    measured = [row for row in paper.rows if row.measured]
    if measured:
        title = "Figures, published and measured"
        cells = [_figure(row) for row in measured]
        parts.append(of_rows(title, cells, left=LEFT, width=width, dispensable=("interval",)))
    if omitted := sum(row.cell.value is not None for row in paper.rows if not row.measured):
        parts.append(
            Text(
                f"{omitted} published figures were not measured: other hardware, models"
                " or frameworks (--format markdown lists them)"
            )
        )
    if paper.findings:
        parts.append(of_rows("Findings", _findings(paper), left=LEFT, folded=FOLDED, width=width))
    parts.append(
        of_rows(
            "What differs",
            _differences(paper),
            left=(*LEFT, "published setting"),
            folded=FOLDED,
            width=width,
        )
    )
    parts += [Text(note) for note in _notes(paper)]
    return Group(*parts)


def markdown(paper: Paper) -> str:
    """All tables as Markdown, with the published figures that were not measured."""
    parts = [f"**{paper.manifest.title}**: {paper.manifest.source}"]
    if paper.findings:
        parts += ["### Findings", markdown_of(_findings(paper))]
    if paper.rows:
        parts += ["### Figures", markdown_of([_figure(row) for row in paper.rows])]
    parts += ["### What differs", markdown_of(_differences(paper))]
    return "\n\n".join([*parts, *_notes(paper)])


def _notes(paper: Paper) -> Iterator[str]:
    for text in paper.manifest.assumptions:
        yield f"Not published, chosen here: {text}"
    yield from NOTES


def _figure(row: Row) -> dict[str, str]:
    trial, measured = row.trial, row.measured
    return {
        "model": row.cell.model or (trial.record.workload.model if trial else UNKNOWN),
        "hardware": row.cell.hardware,
        "framework": row.cell.framework,
        "figure": row.cell.measure,
        "published": _number(row.cell.value),
        "measured": _number(measured.value if measured else None),
        "interval": _ends(measured),
        "ratio": number(row.ratio, "{:.3g}"),
        SAME_WORK: yes_no(trial.parity.proven) if trial else UNKNOWN,
    }


def _number(value: float | None) -> str:
    """Four digits, and all those before the point."""
    return number(value, "{:,.0f}" if value is not None and abs(value) >= 1000 else "{:.4g}")


def _ends(measured: Value | None) -> str:
    if measured is None or measured.low is None or measured.high is None:
        return UNKNOWN
    return f"{_number(measured.low)} to {_number(measured.high)}"


def _findings(paper: Paper) -> list[dict[str, str]]:
    return [cell for tested in paper.findings for cell in _finding(tested)]


def _finding(tested: JudgedFinding) -> Iterator[dict[str, str]]:
    """A row for the finding, and one for each claim where there are several."""
    claims = tested.claims
    single = len(claims) == 1 and len(claims[0].ratios) == 1
    measured = f" ({tested.measured_claims} of {len(claims)} measured)" if len(claims) > 1 else ""
    first = claims[0].ratios[0] if single else None
    yield {
        "finding": tested.finding.statement,
        "claim": _claim(claims[0].claim, first) if first else tested.finding.quorum + measured,
        **_ratio(first),
        "verdict": tested.verdict or UNKNOWN,
    }
    if single:
        return
    for judged in claims:
        if judged.verdict != "not measured":
            yield from _claims(judged)


def _claims(judged: JudgedClaim) -> Iterator[dict[str, str]]:
    for ratio in judged.ratios:
        alone = JudgedClaim(claim=judged.claim, ratios=(ratio,))
        yield {
            "finding": "",
            "claim": _claim(judged.claim, ratio),
            **_ratio(ratio),
            "verdict": alone.verdict or UNKNOWN,
        }


def _claim(claim: Claim, ratio: Ratio) -> str:
    """Which ratio is compared with which number."""
    limit = ""
    if claim.above is not None:
        limit = f" > {claim.above:g}"
    elif claim.below is not None:
        limit = f" < {claim.below:g}"
    names = f"{ratio.of} / {ratio.to}"
    if claim.over:
        changed = ", ".join(claim.over.model_dump(exclude_none=True).values())
        names = f"({names}) / (the same, {changed})"
    kind = "" if claim.compared == "speed" else f"{claim.compared}: "
    return f"{kind}{names}{limit}"


def _ratio(ratio: Ratio | None) -> dict[str, str]:
    found = ratio.measured if ratio else None
    return {
        "published": _range(ratio.published if ratio else ()),
        "measured": number(found.ratio if found else None, "{:.3g}"),
        "interval": f"{found.low:.3g} to {found.high:.3g}" if found else UNKNOWN,
    }


def _range(values: Sequence[float]) -> str:
    """One value, or the lowest and the highest."""
    ends = dict.fromkeys(f"{each:.3g}" for each in (min(values), max(values))) if values else ()
    return " to ".join(ends) or UNKNOWN


def _differences(paper: Paper) -> Sequence[dict[str, str]]:
    return [
        {"subject": name, "published setting": published, "here": here}
        for name, published, here in paper.differences()
    ] or [{"subject": "nothing", "published setting": UNKNOWN, "here": UNKNOWN}]
