"""The commands `data prepare` and `data verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.session import progress
from suite.datasets import library
from suite.errors import DataError, Interrupted
from suite.manifests import catalog

data = typer.Typer(help="Obtain and verify datasets.", no_args_is_help=True)


@data.command()
def prepare(
    name: Annotated[str, typer.Argument(help="The dataset (dlsuite list).")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Only this folder, which holds the raw files or images."),
    ] = None,
) -> None:
    """Obtain a dataset from the first source that has it, verify it, convert it.

    An image folder (imagenet) is decoded once; after an interruption the same command continues.

    Example: dlsuite data prepare mnist --from ~/mnist
    """
    dataset = catalog.dataset(name)
    with progress() as live:
        try:
            folder = library.prepare(dataset, notify=live.notify, source=source)
        except KeyboardInterrupt:
            hint = "the same command starts again; images that are decoded already are kept"
            raise Interrupted("interrupted", hint=hint) from None
    print(folder)
    images = library.read(dataset).images
    if images:
        for note in images.remarks(folder):
            print(note, file=sys.stderr)


@data.command()
def verify(name: Annotated[str, typer.Argument(help="The dataset (dlsuite list).")]) -> None:
    """Read every prepared file and compare its checksum."""
    dataset = catalog.dataset(name)
    damaged = library.verify(dataset, full=True)
    if damaged:
        raise DataError(
            f"{library.folder(dataset) / damaged}: missing, truncated or changed",
            hint=library.command(dataset),
        )
    print(library.folder(dataset))
