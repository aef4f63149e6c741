"""The command `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from suite.report import explanations, table


def explain(
    column: Annotated[
        str | None, typer.Argument(help="A heading of a table; without it, all of them.")
    ] = None,
) -> None:
    """Explain a column of the tables.

    Examples: dlsuite explain MFU ; dlsuite explain "same work"
    """
    console = table.console()
    chosen = (
        explanations.EXPLANATIONS if column is None else {column: explanations.explanation(column)}
    )
    for heading, found in chosen.items():
        text = f"{heading}: {found.text} See {found.page}."
        console.print(text, soft_wrap=column is None)
