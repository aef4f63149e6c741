"""The rented machine of a run: what was offered, at which price.

The task of `dlsuite cloud` writes the offer into a file on the machine, and names it in
DLSUITE_OFFER. Every record of the machine has it in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from suite.errors import ManifestError
from suite.manifests import json_file
from suite.manifests.strict import Strict, first_problem

VARIABLE = "DLSUITE_OFFER"
FACT = "rental"  # its key in the environment of a record
LESS_MEMORY = 0.85  # of what is offered: firmware and kernel take a part


class Catalog(Strict):
    """The file of list prices that an offer is from."""

    file: str
    sha256: str | None
    modified_s: float | None  # since 1970


class Rental(Strict):
    """A type of machine of a provider, and its list price when it was rented."""

    provider: str
    region: str
    zone: str | None
    machine_type: str
    accelerator: str | None  # its name in the catalog
    accelerators: int
    vcpus: NonNegativeFloat | None
    memory_gib: NonNegativeFloat | None
    spot: bool
    price_per_hour: PositiveFloat  # in dollars
    catalog: Catalog
    skypilot: str  # its version
    machine: PositiveInt = 1  # of several machines of one type
    images: str | None = None  # the registry that they were pulled from; None: made on the machine

    @property
    def place(self) -> str:
        """Where the machine is: `aws/us-east-1`."""
        return "/".join(filter(None, (self.provider, self.region, self.zone)))


def of_variable() -> dict[str, Any] | None:
    """The rental in the file that DLSUITE_OFFER names; None where the variable is not set."""
    path = os.environ.get(VARIABLE)
    return read(Path(path).expanduser()).model_dump(mode="json") if path else None


def read(path: Path) -> Rental:
    """The rental in a file; ManifestError where it is none."""
    try:
        return Rental.model_validate(json_file.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        reason = error.strerror or "unreadable"
    except ValidationError as error:
        reason = first_problem(error)
    except ValueError as error:
        reason = str(error)
    raise ManifestError(f"{path}: {reason}", hint=f"unset {VARIABLE} where nothing is rented")


def of_environment(environment: Mapping[str, Any]) -> Rental | None:
    """The rental in the environment of a record; None where it has none."""
    found = environment.get(FACT)
    return Rental.model_validate(found) if found else None


def differences(rental: Rental, host: Mapping[str, Any]) -> Iterator[str]:
    """What the machine (worker/host.py) does not have of its offer.

    Without any GPU in `host`, GPUs are not compared: a run on the CPU does not list them.
    """
    gpus = host.get("gpus") or []
    if rental.accelerator and gpus:
        if len(gpus) != rental.accelerators:
            yield f"offered {rental.accelerators} GPUs, found {len(gpus)}"
        for name in sorted({str(gpu.get("name")) for gpu in gpus}):
            if _model(rental.accelerator) not in name.upper():
                yield f"offered {rental.accelerator}, found {name}"
    cpus = host.get("logical_cpus")
    if rental.vcpus and cpus and cpus < rental.vcpus:
        yield f"offered {rental.vcpus:g} vCPUs, found {cpus}"
    memory_gib = (host.get("memory_bytes") or 0) / 2**30
    if rental.memory_gib and memory_gib and memory_gib < LESS_MEMORY * rental.memory_gib:
        yield f"offered {rental.memory_gib:g} GiB of memory, found {memory_gib:.3g}"


def _model(accelerator: str) -> str:
    """The model of a GPU without the size of its memory: `A100` of `A100-80GB`."""
    return accelerator.upper().partition("-")[0]
