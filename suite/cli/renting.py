"""The options about a machine to rent, and the request that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import typer

from suite.cli.grouped import Group
from suite.cloud.offers import Limits, Wanted
from suite.errors import UsageError
from suite.manifests import papers
from suite.paths import REPOSITORY
from suite.runner.timelimit import TimeLimit

Gpus = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND:COUNT", help="A kind of GPU, such as H100:1; repeatable."),
]
Infras = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE", help="A place, as slurm/CLUSTER/PARTITION; repeatable."),
]
Cpus = Annotated[int | None, typer.Option(min=1, help="CPUs of a machine without a GPU.")]
MaxPrice = Annotated[
    float | None, typer.Option(help="The highest price of a machine, in dollars per hour.")
]
MaxCost = Annotated[
    float | None, typer.Option(help="The highest cost of all machines of one kind, in dollars.")
]
MaxTime = Annotated[str, typer.Option(help="The limit of time of the run.")]
Clouds = Annotated[
    str | None, typer.Option(metavar="A,B", help="Only these providers, as SkyPilot's.")
]
Region = Annotated[str | None, typer.Option(help="Only this region.")]
Spot = Annotated[
    bool, typer.Option("--spot", help="Spot machines: a replacement in the middle skews a run.")
]
Machines = Annotated[
    int, typer.Option(min=1, help="Machines of each kind; one is one sample of its type.")
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable on the machine; repeatable."),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="REGISTRY",
        help="The machine pulls its images, which dlsuite images push has put there.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user wants to rent, and for what."""

    suite: str
    options: tuple[str, ...]
    kinds: tuple[Wanted, ...]
    limits: Limits
    max_time: str
    clouds: tuple[str, ...]
    region: str | None
    variables: dict[str, str]
    registry: str | None  # of the images


@dataclass(frozen=True, kw_only=True)
class Renting(Group):
    """The machines that the user wants, and what they may cost."""

    PANEL = "What is rented"

    gpu: Gpus = None
    infra: Infras = None
    cpus: Cpus = None
    max_price: MaxPrice = None
    max_cost: MaxCost = None
    max_time: MaxTime = "1h"
    clouds: Clouds = None
    region: Region = None
    spot: Spot = False
    machines: Machines = 1
    env: Variables = None
    images: Registry = None

    def request(self, suite: str, options: Sequence[str] | None) -> Request:
        """What is to be rented for a suite; UsageError where an option is missing or wrong."""
        limits = self._limits()
        if not (REPOSITORY / "Makefile").is_file():
            raise UsageError(
                "the machine gets a copy of the checkout, and this dlsuite is not in one",
                hint="run it in a clone: make .venv/.ready, .venv/bin/dlsuite cloud ...",
            )
        papers.suite(suite)
        return Request(
            suite=suite,
            options=tuple(options or ()),
            kinds=self._kinds(),
            limits=limits,
            max_time=self.max_time,
            clouds=tuple(each for each in (self.clouds or "").split(",") if each),
            region=self.region,
            variables=dict(map(_variable, self.env or ())),
            registry=self.images,
        )

    def _limits(self) -> Limits:
        no_cost = self.max_cost is not None and self.max_cost <= 0
        if self.max_price is None or self.max_price <= 0 or no_cost:
            raise UsageError(
                "--max-price must be given, and limits must be above 0", hint="--max-price 3"
            )
        return Limits(
            max_price_per_hour=self.max_price,
            max_cost=self.max_cost,
            run_s=TimeLimit.of(self.max_time).limit_s,
            spot=self.spot,
            machines=self.machines,
        )

    def _kinds(self) -> tuple[Wanted, ...]:
        """The kinds of machines: each kind of GPU in each place."""
        if not self.gpu and not self.infra:
            raise UsageError("--gpu is missing", hint="--gpu H100:1")
        places = [Wanted.at(each, self.cpus) for each in self.infra or ()]
        gpus = [Wanted.of_gpu(each) for each in self.gpu or ()]
        if not gpus or not places:
            return tuple(gpus or places)
        return tuple(
            each.model_copy(update={"infra": place.infra}) for each, place in product(gpus, places)
        )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--env {text!r} is not NAME=VALUE", hint="--env DLSUITE_HOME=/scratch/d")
    return name, value
