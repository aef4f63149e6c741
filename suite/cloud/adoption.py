"""The runs that were pulled from a machine, with its papers, in the folder of results."""

from __future__ import annotations

import shutil
from pathlib import Path

from suite.cloud.journal import EVENTS, LOG, Journal
from suite.cloud.task import OFFER_FILE, PINS_FILE, RESULTS, TASK
from suite.errors import ResultsError
from suite.paths import part_of
from suite.results import checksums
from suite.results.store import PLAN, RunFolder

FOLDER = "cloud"
PAPERS = (TASK, OFFER_FILE, PINS_FILE, EVENTS, LOG)


def adopt(own: Journal, results: Path) -> list[Path]:
    """Copy each pulled run to `results`; return the folders, the oldest first.

    A run that was copied before it was finished is replaced. ResultsError where another run has
    its name, or the copy fails.
    """
    pulled = sorted((own.folder / RESULTS).glob(f"*/{PLAN}"))
    return [_adopted(own, each.parent, results) for each in pulled if not each.parent.is_symlink()]


def _adopted(own: Journal, pulled: Path, results: Path) -> Path:
    final = results / pulled.name
    if final.exists() and not _is_copy(final, pulled):
        raise ResultsError(f"{final} exists, and is another run", hint="choose other --results")
    try:
        results.mkdir(parents=True, exist_ok=True)
        part = part_of(final)
        shutil.copytree(pulled, part, dirs_exist_ok=True)
        (part / FOLDER).mkdir(exist_ok=True)
        for name in PAPERS:
            if (own.folder / name).is_file():
                shutil.copyfile(own.folder / name, part / FOLDER / name)
                checksums.add(part, f"{FOLDER}/{name}")
        with RunFolder(final).writing(FOLDER):
            if final.exists():
                shutil.rmtree(final)
            part.rename(final)
    except OSError as error:
        raise ResultsError(
            f"{final} cannot be written: {error.strerror or error}",
            hint=f"dlsuite cloud pull {own.name}, with other --results",
        ) from None
    return final


def _is_copy(final: Path, pulled: Path) -> bool:
    """Whether a run has the plan of a pulled one."""
    try:
        return (final / PLAN).read_bytes() == (pulled / PLAN).read_bytes()
    except OSError:
        return False
