"""Write docs/papers/<name>.md, with a figure, from runs that repeat published comparisons.

Usage: .venv/bin/python scripts/paper_pages.py RUN [RUN ...]

A page has the findings, the figures that the run measured, and what differs. The published figures
are in manifests/papers/. The page of another suite, such as ten_years, has its table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from suite.manifests import catalog, papers
from suite.paths import REPOSITORY
from suite.report import figures, markdown, paper_table, run_data
from suite.report.figures import render
from suite.report.figures.picture import picture
from suite.report.paper import Paper
from suite.report.titles import made_with
from suite.results.index import started_at

PAGES = REPOSITORY / "docs" / "papers"


def write(folder: Path) -> Path:
    """The page of a run; its figure has the rates, or the latencies of inference."""
    run = run_data.read(folder)
    suite = run.records[0].suite
    paper = Paper(run) if papers.paper_of(suite) else None
    name = paper.manifest.name if paper else suite.replace("_", "-")
    kind = next(each for each in ("rates", "latency") if any(figures.KINDS[each](run)))
    drawn = picture(run, list(figures.KINDS[kind](run)))
    PAGES.mkdir(exist_ok=True)
    (PAGES / f"{name}.svg").write_bytes(render.content(drawn, "svg"))
    if paper:
        paper.rows = [row for row in paper.rows if row.measured]
        made = f"Run on {started_at(folder):%Y-%m-%d}: {made_with(run.records)}."
        title, content = f"{name}, repeated\n\n{made}", paper_table.markdown(paper)
    else:
        title, content = catalog.suite(suite).title or suite, markdown.of_run(run)
    page = PAGES / f"{name}.md"
    page.write_text(f"# {title}\n\n![{kind}]({name}.svg)\n\n{content}\n", encoding="utf-8")
    return page


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(write(Path(argument)))
