"""The commands `cloud ...`: a run on machines of cloud providers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from suite.cloud import offers, skypilot
from suite.cloud.offers import Accelerator, Limits, Offer
from suite.cloud.skypilot import Found
from suite.cloud.task import Task
from suite.errors import ResultsError, UsageError
from suite.manifests import catalog
from suite.paths import write_atomically
from suite.report import table
from suite.report.numbers import UNKNOWN, number
from suite.runner.timelimit import TimeLimit

cloud = typer.Typer(no_args_is_help=True, help="Plan a run on a machine of a cloud provider.")
LEFT = ("provider", "region", "machine", "GPU", "verdict")


@cloud.callback()
def _group() -> None:
    """Plan a run on a machine of a cloud provider."""


@cloud.command()
def plan(
    suite: Annotated[str, typer.Argument(help="The suite that the machine runs.")] = "quick",
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND:COUNT", help="A kind of GPU, such as H100:1; repeatable."),
    ] = None,
    max_price: Annotated[
        float | None, typer.Option(help="The highest price of a machine, in dollars per hour.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(help="The highest cost of all machines of one kind, in dollars."),
    ] = None,
    max_time: Annotated[str, typer.Option(help="The limit of time of the run.")] = "1h",
    clouds: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these providers, as SkyPilot's.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Only this region.")] = None,
    spot: Annotated[
        bool,
        typer.Option("--spot", help="Spot machines: a replacement in the middle skews a run."),
    ] = False,
    machines: Annotated[
        int, typer.Option(min=1, help="Machines of each kind; one is one sample of its type.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the plan.")] = Path(
        "cloud"
    ),
) -> None:
    """List offers with their prices and write a SkyPilot task for each kind of GPU.

    Nothing is started. The cheapest offer within the limits is chosen; the highest cost has 35
    minutes for provisioning and set-up beside --max-time.

    Example: dlsuite cloud plan quick --gpu H100:1 --gpu A10G:1 --max-price 3 --max-cost 10
    """
    if not gpu:
        raise UsageError("--gpu is missing", hint="--gpu H100:1")
    if max_price is None or max_price <= 0 or (max_cost is not None and max_cost <= 0):
        raise UsageError(
            "--max-price must be given, and limits must be above 0", hint="--max-price 3"
        )
    limits = Limits(
        max_price_per_hour=max_price,
        max_cost=max_cost,
        run_s=TimeLimit.of(max_time).limit_s,
        spot=spot,
        machines=machines,
    )
    kinds = [Accelerator.parse(text) for text in gpu]
    name = catalog.suite(suite).name
    asked = [each for each in (clouds or "").split(",") if each]
    found = {kind: skypilot.offers(kind, clouds=asked, region=region) for kind in kinds}
    console, lacking = table.console(), []
    for kind, answer in found.items():
        rows = [*_rows(answer.offers, limits)]
        if rows:
            console.print(table.of_rows(f"{kind}, {name}", rows, left=LEFT, width=console.width))
        best = offers.chosen(answer.offers, limits)
        if best is None:
            lacking.append(str(kind))
            continue
        cluster = f"dlsuite-{name}-{kind.name}-{kind.count}".lower().replace("_", "-")
        task = Task(name=cluster, offer=best, limits=limits, suite_name=suite, max_time=max_time)
        print(f"{_write(out / cluster, task, answer)}: next: sky launch --help")
    if lacking:
        raise ResultsError(
            f"no machine within the limits has {', '.join(lacking)}",
            hint="a higher --max-price or --max-cost, other --clouds, or sky check",
        )


def _rows(found: Sequence[Offer], limits: Limits) -> Iterator[dict[str, str]]:
    best = offers.chosen(found, limits)
    for offer in offers.ordered(found, limits):
        yield {
            "provider": offer.cloud,
            "region": offer.region,
            "machine": offer.instance_type,
            "GPU": f"{offer.accelerator}:{offer.count}",
            "$/h": number(limits.price(offer), "{:.4g}"),
            "at most $": number(limits.cost(offer), "{:.2f}"),
            "verdict": limits.refusal(offer) or ("chosen" if offer is best else UNKNOWN),
        }


def _write(folder: Path, task: Task, found: Found) -> Path:
    """Write task.yaml and offer.json into the folder; ResultsError where that fails."""
    values = {
        "skypilot": found.version,
        "spot": task.limits.spot,
        "price_per_hour": task.limits.price(task.offer),
        "max_cost": task.limits.cost(task.offer),
        "offer": task.offer.model_dump(mode="json"),
    }
    path = folder / "task.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, task.text)
        write_atomically(folder / "offer.json", json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise ResultsError(f"{folder}: {error.strerror}", hint="--out DIR") from None
    return path
