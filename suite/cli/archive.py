"""The commands `export`, `import` and `verify`: runs that are sent, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import suite
from suite.cli import again
from suite.cli.again import Start
from suite.cli.options import Format, Key, Results, RunName, Sign
from suite.cli.session import run_folder_of
from suite.errors import DlsuiteError, NotVerified, ResultsError
from suite.report import table
from suite.report.html import check, page
from suite.results import archive, checksums, signature, store
from suite.runner.verification.findings import Note, Outcome, finding

MOST_LINES = 8  # about one file


def export(
    run: RunName,
    file: Annotated[Path, typer.Argument(help="The new file, such as run.tar.gz.")],
    results: Results = Path("results"),
    sign: Sign = False,
    key: Key = None,
) -> None:
    """Write a run into one file, with the checksum of everything in it.

    Example: dlsuite export latest run.tar.gz
    """
    folder = run_folder_of(run, results)
    if sign or key:
        if not (folder / checksums.NAME).is_file():
            raise ResultsError(
                f"{folder} is not finished, so it cannot be signed", hint=f"dlsuite resume {folder}"
            )
        signature.signer(key).sign(folder / checksums.NAME)
    manifest = archive.write(folder, file)
    print(f"{file}: {manifest.run_id}, {len(manifest.files)} files")


def bundle(
    run: RunName = Path("latest"),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The new file.")
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Write a run into one file that `dlsuite repeat` runs again elsewhere.

    The file is that of `dlsuite export`; its name is that of the run.

    Example: dlsuite bundle latest
    """
    folder = run_folder_of(run, results)
    file = out or Path(f"{folder.name}.tar.gz")
    archive.write(folder, file)
    print(f"{file}: next, on another machine: dlsuite repeat {file.name}")


def import_run(
    file: Annotated[Path, typer.Argument(help="A file that dlsuite export wrote.")],
    results: Results = Path("results"),
) -> None:
    """Write an exported run into --results, after the check of its checksums.

    Example: dlsuite import run.tar.gz
    """
    folder = archive.read(file, results)
    print(f"{folder}: imported; next: dlsuite verify {folder}")


def verify_with(start: Start) -> Callable[..., None]:
    """The command `verify`; `start` is that of `dlsuite run`, which this module does not import."""

    def verify(
        run: RunName = Path("latest"),
        format: Annotated[Format, typer.Option(help="table or json.")] = Format.table,
        results: Results = Path("results"),
        signer: Annotated[
            str | None,
            typer.Option(
                metavar="FILE|PRINCIPAL",
                help="Who must have signed it: a file of ssh-keygen's allowed signers, or a name.",
            ),
        ] = None,
        repeat: Annotated[
            int,
            typer.Option(
                "--again", metavar="N", help="Prove and measure N randomly chosen rows again, here."
            ),
        ] = 0,
    ) -> None:
        """Check a run of somebody else: its checksums, and all values that can be computed again.

        Each line names a file, what does not fit, the expected value and the found one. The exit
        code is 12 where there is such a line.

        RUN may also be the file of an exported run.

        Example: dlsuite verify results/20261121-120000-quick
        """
        with TemporaryDirectory(prefix="dlsuite-verify-") as temporary:
            folder = (
                archive.read(run, Path(temporary)) if run.is_file() else run_folder_of(run, results)
            )
            check_run(folder, format, signer)
            if repeat:
                again.measure(folder, repeat, results, start)

    return verify


def check_run(folder: Path, format: Format = Format.table, signer: str | None = None) -> None:
    """Print what does not fit in a run; NotVerified where there is such a line."""
    from suite.runner.verification.verify import verify as verified

    found = verified(folder, signature.allowed_signers(signer) if signer else None)
    found.add(_page(folder), page.NAME)
    if format is Format.json:
        print(json.dumps(asdict(found), indent=1))
    else:
        console = table.console()
        for kind, outcomes in (("note", found.notes), ("finding", found.findings)):
            for line in _lines(outcomes):
                console.print(f"{kind}: {line}", soft_wrap=True)
        checked = f"{found.records} records and {found.certificates} certificates checked"
        console.print(f"{folder.name}: {checked}, {len(found.findings)} findings", soft_wrap=True)
    if found.findings:
        raise NotVerified(
            f"{folder} does not fit its checksums, plan, proofs or events:"
            f" {len(found.findings)} findings",
            hint="ask for the run again (dlsuite export), and do not use its figures",
        )


def _lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The outcomes by file; of a file with very many, the first ones and the number of others."""
    by_file: dict[str, list[Outcome]] = {}
    for each in outcomes:
        by_file.setdefault(each.where, []).append(each)
    for where, of_file in by_file.items():
        yield from map(str, of_file[:MOST_LINES])
        if (others := len(of_file) - MOST_LINES) > 0:
            yield f"{where}: and {others} more; --format json shows all"


def _page(folder: Path) -> Iterator[Outcome]:
    """Whether the page of a run shows its records; that of another version differs anyway."""
    try:
        differing = check.difference(folder)
    except (DlsuiteError, LookupError, TypeError, ValueError) as error:
        yield Note(where=page.NAME, text=f"not compared with the records: {error}")
        return
    if differing is None:
        return
    expected, actual = differing
    made_by = {each.environment.get("dlsuite") for each in store.read(folder)}
    if made_by == {suite.__version__}:
        yield finding(page.NAME, "text", expected, actual)
    else:
        text = f"dlsuite {suite.__version__} makes another page: {expected!r} instead of {actual!r}"
        yield Note(where=page.NAME, text=f"{text}; dlsuite report {folder.name} --html FILE")
