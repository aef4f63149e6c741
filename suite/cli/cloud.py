"""The commands `cloud ...`: a run on rented machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.grouped import grouped
from suite.cli.options import Results
from suite.cli.renting import Renting, Request
from suite.cloud import adoption, images, journal, offers, skypilot
from suite.cloud.check import check as check_machine
from suite.cloud.journal import Journal
from suite.cloud.machine import Machine, Outcome, must_be_free
from suite.cloud.offers import Limits, Offer, Wanted
from suite.cloud.skypilot import Found
from suite.cloud.task import RESULTS, TASK, Task
from suite.engines.docker.pins import Pins
from suite.errors import Interrupted, MachineLeft, ResultsError, RunsFailed, UsageError
from suite.report import machines as by_machine
from suite.report import run_data, table
from suite.report.numbers import UNKNOWN, number
from suite.results import store

cloud = typer.Typer(no_args_is_help=True, help="Run on rented machines, which SkyPilot starts.")
LEFT = ("provider", "region", "machine", "GPU", "verdict")

Suite = Annotated[str, typer.Argument(help="The suite that the machine runs.")]
RunOptions = Annotated[
    list[str] | None,
    typer.Argument(metavar="OPTIONS", help="Options of dlsuite run, after --."),
]
Name = Annotated[str, typer.Argument(help="A machine, as `dlsuite cloud status` names it.")]


@cloud.callback()
def _group() -> None:
    """Run on rented machines, which SkyPilot starts."""
    for each in journal.open_journals():
        if not each.is_held:
            print(f"warning: {_alive(each)}: dlsuite cloud down {each.name}", file=sys.stderr)


@cloud.command()
@grouped
def plan(
    rent: Renting,
    suite: Suite = "quick",
    options: RunOptions = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the plan.")] = Path(
        "cloud"
    ),
) -> None:
    """List offers with their prices and write a SkyPilot task for each kind of machine.

    Nothing is started. The cheapest offer within the limits is chosen; the highest cost has 40
    minutes for provisioning, set-up and end beside --max-time.

    Example: dlsuite cloud plan quick --gpu H100:1 --gpu A10G:1 --max-price 3 --max-cost 10
    """
    for task in _planned(rent.request(suite, options)):
        folder = out / task.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            task.write(folder)
        except OSError as error:
            raise ResultsError(f"{folder}: {error.strerror}", hint="--out DIR") from None
        print(f"{folder / TASK}: next: dlsuite cloud run, or sky launch --help")


@cloud.command()
@grouped
def run(
    rent: Renting,
    suite: Suite = "quick",
    options: RunOptions = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before money is spent.")] = False,
    results: Results = Path("results"),
) -> None:
    """Rent a machine of each kind, one after the other, run the suite on it, and end it.

    Results are copied each minute. Ctrl-C ends the machine first. The exit code is 13 where a
    machine is not verified to be gone.

    Example: dlsuite cloud run quick --gpu H100:1 --max-price 3 --max-cost 10 --max-time 1h
    """
    request = rent.request(suite, options)
    tasks = _planned(request)
    most = sum(request.limits.cost(task.offer) or 0 for task in tasks if task.machine == 1)
    _confirm(f"rent {len(tasks)} machines, at most {most:.2f} $ together", yes=yes)
    _show_runs(_run_all(tasks, results))


@cloud.command()
def resume(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before money is spent.")] = False,
    results: Results = Path("results"),
) -> None:
    """Finish the run of a machine that ended early, on a machine of the same type.

    The price is asked again. The run is refused on a machine that is not equal.

    Example: dlsuite cloud resume dlsuite-quick-h100x1
    """
    first = _last_journal(name)
    task = first.task
    runs = sorted((first.folder / RESULTS).glob(f"*/{store.PLAN}"))
    if task is None or not runs:
        raise ResultsError(f"no run of {name} was copied from it", hint="dlsuite cloud run")
    old = task.offer
    wanted = Wanted(
        accelerator=old.accelerator,
        count=old.count,
        infra=old.place,
        cpus=int(old.vcpus) if old.vcpus and not old.accelerator else None,
    )
    found = skypilot.offers(wanted, clouds=[], region=None)
    same = [each for each in found.offers if each.instance_type == old.instance_type]
    if refused := next((task.limits.refusal(each) for each in same), "it is not offered any more"):
        raise ResultsError(f"{old.instance_type} at {old.place}: {refused}", hint="cloud run")
    again = _with_images(
        task.model_copy(update={"offer": same[0], "skypilot": found.version, "resumed": True})
    )
    _confirm(f"rent {name} again, at most {again.limits.cost(same[0]):.2f} $", yes=yes)
    _show_runs(_run_all([again], results, first=first))


@cloud.command()
def status() -> None:
    """Show the machines that may be alive: since when, at which price, what was done last.

    Example: dlsuite cloud status
    """
    rows = [*_status()]
    console = table.console()
    if rows:
        console.print(table.of_rows("rented", rows, left=tuple(rows[0]), width=console.width))
    else:
        print("no machine that dlsuite rented is alive")


@cloud.command()
def pull(name: Name, results: Results = Path("results")) -> None:
    """Copy the results of a machine now.

    Example: dlsuite cloud pull dlsuite-quick-h100x1
    """
    own = _last_journal(name)
    problem = _machine(own).pull() if own.may_be_alive else None
    for folder in adoption.adopt(own, results):
        print(folder)
    if problem:
        raise ResultsError(f"{name}: {problem}", hint="dlsuite cloud status")


@cloud.command()
def down(
    name: Annotated[str | None, typer.Argument(help="A machine; see dlsuite cloud status.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All that dlsuite rented.")] = False,
    results: Results = Path("results"),
) -> None:
    """Copy the results of machines, end them, and verify that they are gone.

    Example: dlsuite cloud down --all
    """
    if (name is None) is not all:
        raise UsageError("one machine or --all", hint="dlsuite cloud status")
    left = []
    known = journal.open_journals()
    chosen = known if all else [each for each in known if each.name == name]
    for own in chosen if chosen or all else [_last_journal(str(name))]:
        with own.held():
            if not _machine(own).end(None, "dlsuite cloud down"):
                left.append(own)
        for folder in adoption.adopt(own, results):
            print(folder)
    _must_be_gone(left)
    print("no machine is left")


@cloud.command()
def check() -> None:
    """On the machine: compare it with its offer, and its driver with the locks.

    The task runs this before anything is measured.
    """
    for line in check_machine():
        print(line)


def _planned(request: Request) -> list[Task]:
    """The task of each machine, after the offers are shown; ResultsError where one has none."""
    answers = {
        kind: skypilot.offers(kind, clouds=request.clouds, region=request.region)
        for kind in request.kinds
    }
    console, tasks = table.console(), list[Task]()
    lacking = []
    for kind, answer in answers.items():
        rows = [*_rows(answer.offers, request.limits)]
        if rows:
            title = f"{kind}, {request.suite}"
            console.print(table.of_rows(title, rows, left=LEFT, width=console.width))
        best = offers.chosen(answer.offers, request.limits)
        if best:
            tasks += _tasks(request, kind, best, answer)
        else:
            lacking.append(str(kind))
    if lacking:
        raise ResultsError(
            f"no machine within the limits has {', '.join(lacking)}",
            hint="a higher --max-price or --max-cost, other --clouds, or sky check",
        )
    return [_with_images(each) for each in tasks]


def _with_images(task: Task) -> Task:
    """The task with the images of its registry; ResultsError where one is not there."""
    if not task.registry:
        return task
    gpus = task.offer.count
    recipes = images.needed(task.suite_name, task.options, gpus=gpus, variables=task.variables)
    pins = Pins(images=images.pushed(recipes, task.registry))
    return task.model_copy(update={"pins": pins})


def _tasks(request: Request, kind: Wanted, best: Offer, answer: Found) -> Iterator[Task]:
    suite = Path(request.suite).stem.lower().replace("_", "-")
    for number_of in range(1, request.limits.machines + 1):
        yield Task(
            name="-".join(
                ["dlsuite", suite, kind.slug, *([f"n{number_of}"] if number_of > 1 else [])]
            ),
            offer=best,
            limits=request.limits,
            skypilot=answer.version,
            suite_name=request.suite,
            max_time=request.max_time,
            options=request.options,
            variables=request.variables,
            machine=number_of,
            registry=request.registry,
        )


def _rows(found: Sequence[Offer], limits: Limits) -> Iterator[dict[str, str]]:
    best = offers.chosen(found, limits)
    for offer in offers.ordered(found, limits):
        yield {
            "provider": offer.cloud,
            "region": "/".join(filter(None, (offer.region, offer.zone))),
            "machine": offer.instance_type,
            "GPU": offer.gpus or UNKNOWN,
            "$/h": number(limits.price(offer), "{:.4g}"),
            "at most $": number(limits.cost(offer), "{:.2f}"),
            "verdict": limits.refusal(offer) or ("chosen" if offer is best else UNKNOWN),
        }


def _confirm(what: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{what}: nobody can be asked here", hint="--yes")
    if not typer.confirm(what):
        raise Interrupted("nothing was rented", hint="dlsuite cloud plan")


def _run_all(tasks: Sequence[Task], results: Path, first: Journal | None = None) -> list[Path]:
    """Run each task on its machine; return the folders of all runs.

    Raise MachineLeft at once where a machine is left, RunsFailed at the end where one failed.
    """
    folders: list[Path] = []
    failed = []
    for task in tasks:
        must_be_free(task.name)
        own = Journal.new(task)
        if first:
            own.take_results(first)
        outcome = Machine(own, task, _say).run()
        folders += adoption.adopt(own, results)
        _say(f"{task.name}: {_end_of(own, outcome)}")
        if not outcome.gone:
            _must_be_gone([own])
        if outcome.interrupted:
            raise Interrupted(
                "interrupted; no machine is left", hint=f"dlsuite cloud resume {task.name}"
            )
        if outcome.reason:
            failed.append(f"{task.name}: {outcome.reason}; see {own.folder / journal.LOG}")
    if failed:
        _show_runs(folders)
        raise RunsFailed("; ".join(failed), hint=f"dlsuite cloud resume {tasks[0].name}")
    return folders


def _end_of(own: Journal, outcome: Outcome) -> str:
    cost = next((each.facts["cost"] for each in own.events if each.event == journal.GONE), None)
    return "not gone" if cost is None or not outcome.gone else f"gone, about {cost:.2f} $"


def _show_runs(folders: Sequence[Path]) -> None:
    """Print the rows of the runs by machine."""
    runs = [run_data.read(folder) for folder in folders if store.record_files(folder)]
    console = table.console()
    if rows := by_machine.rows(runs, [None] * len(runs)):
        console.print(by_machine.render(rows, console.width))
    for folder in folders:
        print(folder)


def _must_be_gone(left: Sequence[Journal]) -> None:
    if left:
        raise MachineLeft(
            "; ".join(map(_alive, left)), hint="end it in the provider's console, now"
        )


def _alive(own: Journal) -> str:
    task = own.task
    price = f", {task.rental.price_per_hour:.4g} $ per hour go on" if task else ""
    return f"the machine {own.name}{f' at {task.offer.place}' if task else ''} may be alive{price}"


def _status() -> Iterator[dict[str, str]]:
    for own in journal.open_journals():
        task, events = own.task, own.events
        price = task.rental.price_per_hour if task else None
        yield {
            "machine": own.name,
            "place": task.offer.place if task else UNKNOWN,
            "$/h": number(price, "{:.4g}"),
            "hours": number(own.hours(), "{:.2f}"),
            "$ until now": number(own.hours() * price if price else None, "{:.2f}"),
            "last": events[-1].event,
            "dlsuite": "works with it" if own.is_held else "has ended",
        }


def _last_journal(name: str) -> Journal:
    found = [each for each in journal.journals() if each.name == name]
    if not found:
        known = ", ".join(sorted({each.name for each in journal.journals()})) or "none"
        raise UsageError(f"no machine {name!r} was rented; known: {known}", hint="cloud status")
    return found[-1]


def _machine(own: Journal) -> Machine:
    task = own.task
    if task is None:
        raise ResultsError(f"{own.folder / journal.TASK} is damaged", hint=f"sky down {own.name}")
    return Machine(own, task, _say)


def _say(text: str) -> None:
    print(text, flush=True)
