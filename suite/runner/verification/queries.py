"""The timed queries of inference: latencies in order, and as in LoadGen's summary of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from suite.results.record import Inference, Record
from suite.runner.verification import age
from suite.runner.verification.findings import Finding, finding

NS = 1e-9
LINE = re.compile(r"^\s*([^:]+?)\s*:\s*([0-9.e+]+)\s*$", re.MULTILINE)
OF_LOADGEN = "mlcommons-loadgen"  # its name in a record; other queries have no summary
DIGITS = 1e-5  # of the rates in a summary, relative


def check(where: str, record: Record, folder: Path) -> Iterator[Finding]:
    """What contradicts itself in a run of inference with status ok."""
    queries = record.inference
    if queries is None:
        return
    yield from _order(where, queries)
    if not queries.loadgen.startswith(OF_LOADGEN):
        return
    path = folder / "logs" / f"{record.name}.loadgen.txt"
    name = path.relative_to(folder).as_posix()
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from _summary(where, record, queries, dict(LINE.findall(text)), name)
    elif age.is_recent(folder):
        yield finding(where, "summary of LoadGen", name, "none")


def _order(where: str, queries: Inference) -> Iterator[Finding]:
    """Latencies rise with their percentile, from the least one to the largest."""
    if queries.mean_s is None:
        return
    by_percentile = sorted(queries.percentiles_s.items(), key=lambda each: float(each[0]))
    named = [("min", queries.min_s), *by_percentile, ("max", queries.max_s)]
    known = [(name, value) for name, value in named if value is not None]
    for (lower, less), (upper, more) in pairwise(known):
        if less > more * (1 + DIGITS):
            what = f"latency {upper}"
            yield finding(where, what, f"at least {lower}, {less:.6g} s", f"{more:.6g} s")
    if not known[0][1] * (1 - DIGITS) <= queries.mean_s <= known[-1][1] * (1 + DIGITS):
        expected = f"between {known[0][1]:.6g} and {known[-1][1]:.6g} s"
        yield finding(where, "mean latency", expected, f"{queries.mean_s:.6g} s")


def _summary(
    where: str, record: Record, queries: Inference, summary: Mapping[str, str], name: str
) -> Iterator[Finding]:
    """Compare the record with the text that LoadGen wrote."""
    pairs: list[tuple[str, float | None, float]] = [
        ("Min latency (ns)", queries.min_s, NS),
        ("Max latency (ns)", queries.max_s, NS),
        ("Mean latency (ns)", queries.mean_s, NS),
        ("Samples per second", record.samples_per_s, 1.0),
        ("Completed samples per second", record.samples_per_s, 1.0),
    ]
    for percentile, latency_s in queries.percentiles_s.items():
        pairs.append((f"{float(percentile):.2f} percentile latency (ns)", latency_s, NS))
    for key, value, unit in pairs:
        if value is None or (key not in summary and unit == 1.0):
            continue  # of another scenario
        if key not in summary:
            yield finding(where, key, f"a line of {name}", "none")
            continue
        written = float(summary[key]) * unit
        # Latencies are whole nanoseconds, rates have two digits after the point.
        if not math.isclose(written, value, rel_tol=DIGITS, abs_tol=unit / 100 + NS):
            yield finding(where, key, f"{written:.6g} of {name}", f"{value:.6g}")
