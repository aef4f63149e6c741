"""Offers of machines, and which of them are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveInt

from suite.errors import UsageError
from suite.manifests.strict import Strict

PROVISION_S, SETUP_S = 900, 1200  # limits; the machine is paid for during both
ACCELERATOR = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?::([1-9]\d*))?")


class Catalog(Strict):
    """The file of list prices that an offer is from."""

    file: str
    sha256: str | None
    modified_s: float | None  # since 1970


class Offer(Strict):
    """A type of machine of a provider, as SkyPilot's catalog lists it."""

    cloud: str
    region: str
    instance_type: str
    accelerator: str
    count: PositiveInt
    vcpus: float | None
    memory_gib: float | None
    price_per_hour: NonNegativeFloat | None  # in dollars; None: unknown
    spot_price_per_hour: NonNegativeFloat | None
    no_autodown: str | None  # why the provider cannot end the machine by itself; None: it can
    catalog: Catalog


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A kind of GPU, and how many of them one machine has."""

    name: str
    count: int

    @classmethod
    def parse(cls, text: str) -> Accelerator:
        """`H100` or `H100:8`; UsageError for others."""
        found = ACCELERATOR.fullmatch(text)
        if not found:
            raise UsageError(f"--gpu {text!r} is no kind of GPU", hint="--gpu H100:1")
        return cls(name=found[1], count=int(found[2] or 1))

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a machine may cost."""

    max_price_per_hour: float
    max_cost: float | None  # of one machine from its launch to its end; None: no limit
    run_s: float  # the limit of the run itself
    spot: bool = False
    machines: int = 1

    @property
    def paid_s(self) -> float:
        """The longest time for which each machine is paid."""
        return PROVISION_S + SETUP_S + self.run_s

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
