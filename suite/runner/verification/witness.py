"""The signatures of a run: of its starts, before anything was run, and of its checksums at the end.

They say who vouches for the run. No cross-check of the run itself finds a consistent forgery.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.errors import NotVerified
from suite.results import checksums, signature
from suite.runner import starts
from suite.runner.verification.findings import Note, Outcome, finding


def check(folder: Path, signers: Path, principal: str | None) -> Iterator[Outcome]:
    """Whether `principal`, or anybody in the file `signers`, signed the run.

    A start without a signature is a note: `dlsuite export --sign` signs a run that is finished.
    """
    files = [*starts.files(folder), folder / checksums.NAME]
    for file in files:
        where = file.relative_to(folder).as_posix()
        if file.parent != folder and not signature.signature_of(file).is_file():
            yield Note(where=where, text="not signed: the run was signed after it was made")
            continue
        try:
            who = signature.verified(file, signers, principal)
        except NotVerified as error:
            yield finding(where, "signature", principal or f"one of {signers}", error)
        else:
            yield Note(where=where, text=f"signed by {who}")
