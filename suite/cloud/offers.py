"""Offers of machines, and which of them are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from suite.errors import UsageError
from suite.manifests.strict import Strict
from suite.results.rental import Catalog

# Limits of time; the machine is paid for during all of them.
PROVISION_S, SETUP_S, END_S = 900, 1200, 300
ACCELERATOR = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?::([1-9]\d*))?")
INFRA = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:/[A-Za-z0-9_.@-]+){0,2}")


class Offer(Strict):
    """A type of machine of a provider, as SkyPilot's catalog lists it."""

    cloud: str
    region: str
    zone: str | None = None  # None: SkyPilot chooses
    instance_type: str
    accelerator: str | None = None  # None: a machine without one
    count: NonNegativeInt = 0
    vcpus: float | None
    memory_gib: float | None
    price_per_hour: NonNegativeFloat | None  # in dollars; None: unknown
    spot_price_per_hour: NonNegativeFloat | None
    no_autodown: str | None  # why the provider cannot end the machine by itself; None: it can
    catalog: Catalog

    @property
    def place(self) -> str:
        """Where the machine is, as SkyPilot's `infra`."""
        return "/".join(filter(None, (self.cloud, self.region, self.zone)))

    @property
    def gpus(self) -> str | None:
        """`H100:1`; None for a machine without an accelerator."""
        return f"{self.accelerator}:{self.count}" if self.accelerator else None


class Wanted(Strict):
    """A kind of machine: its GPUs, its place, or both."""

    accelerator: str | None = None
    count: NonNegativeInt = 0
    infra: str | None = None  # as SkyPilot: `slurm/CLUSTER/PARTITION`; None: every provider
    cpus: PositiveInt | None = None  # None: SkyPilot's choice

    @classmethod
    def of_gpu(cls, text: str) -> Wanted:
        """`H100` or `H100:8`; UsageError for others."""
        found = ACCELERATOR.fullmatch(text)
        if not found:
            raise UsageError(f"--gpu {text!r} is no kind of GPU", hint="--gpu H100:1")
        return cls(accelerator=found[1], count=int(found[2] or 1))

    @classmethod
    def at(cls, infra: str, cpus: int | None = None) -> Wanted:
        """A machine without a GPU in a place; UsageError where that is not a place."""
        if not INFRA.fullmatch(infra):
            raise UsageError(
                f"--infra {infra!r} is no place", hint="--infra slurm/CLUSTER/PARTITION"
            )
        return cls(infra=infra, cpus=cpus)

    def __str__(self) -> str:
        gpus = f"{self.accelerator}:{self.count}" if self.accelerator else None
        return " at ".join(filter(None, (gpus, self.infra)))

    @property
    def slug(self) -> str:
        """Its part of the name of a machine: letters, digits and hyphens."""
        gpus = f"{self.accelerator}x{self.count}" if self.accelerator else None
        text = "-".join(filter(None, (gpus, self.infra))).lower()
        return re.sub("[^a-z0-9]+", "-", text).strip("-")


class Limits(Strict):
    """What machines of one kind may cost."""

    max_price_per_hour: PositiveFloat
    max_cost: PositiveFloat | None  # of all machines together; None: no limit
    run_s: PositiveFloat  # the limit of the run itself
    spot: bool = False
    machines: PositiveInt = 1

    @property
    def paid_s(self) -> float:
        """The longest time for which each machine is paid."""
        return PROVISION_S + SETUP_S + self.run_s + END_S

    def price(self, offer: Offer) -> float | None:
        """The price per hour that is paid; None where it is unknown."""
        return offer.spot_price_per_hour if self.spot else offer.price_per_hour

    def cost(self, offer: Offer) -> float | None:
        """The highest cost of all machines together."""
        price = self.price(offer)
        return None if price is None else price * self.paid_s / 3600 * self.machines

    def refusal(self, offer: Offer) -> str | None:
        """Why an offer is not taken; None where it can be."""
        price, cost = self.price(offer), self.cost(offer)
        kind = "spot price" if self.spot else "price"
        if price is None or cost is None:
            return f"its {kind} is unknown"
        if price == 0:
            return f"a {kind} of 0 is no price"
        if offer.no_autodown:
            return f"no autodown: {offer.no_autodown}"
        if price > self.max_price_per_hour:
            return f"above --max-price {self.max_price_per_hour:g}"
        if self.max_cost is not None and cost > self.max_cost:
            return f"above --max-cost {self.max_cost:g}"
        return None


def ordered(offers: Sequence[Offer], limits: Limits) -> list[Offer]:
    """The offers by price; those of unknown price last."""

    def key(offer: Offer) -> tuple[float, str, str, str]:
        price = limits.price(offer)
        known = float("inf") if price is None else price
        return known, offer.cloud, offer.region, offer.instance_type

    return sorted(offers, key=key)


def chosen(offers: Sequence[Offer], limits: Limits) -> Offer | None:
    """The cheapest offer that is not refused; None where there is none."""
    return next((each for each in ordered(offers, limits) if not limits.refusal(each)), None)
