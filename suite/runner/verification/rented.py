"""The rented machine of a run: one type in all records, and the offer that lies beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from suite.errors import ManifestError
from suite.results import rental
from suite.results.record import Record
from suite.results.rental import Rental
from suite.runner.verification.findings import Outcome, compared, finding

OFFER = "cloud/offer.json"


def check(folder: Path, records: Sequence[Record]) -> Iterator[Outcome]:
    """What does not fit; a run that was resumed may have two prices, but one type of machine."""
    rented = {each.name: rental.of_environment(each.environment) for each in records}
    first = next(iter(rented.values()), None)
    for name, found in rented.items():
        yield from compared(f"{name}.json", "environment.rental", _type(first), _type(found))
    path = folder / OFFER
    if not path.is_file():
        return
    try:
        offered = rental.read(path)
    except ManifestError as error:
        yield finding(OFFER, "content", "an offer", error)
        return
    if offered not in rented.values():
        yield from compared(OFFER, "offer", first and first.model_dump(), offered.model_dump())


def _type(rented: Rental | None) -> tuple[str, ...] | None:
    if rented is None:
        return None
    return rented.place, rented.machine_type, "spot" if rented.spot else "on demand"
