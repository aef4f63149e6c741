"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from suite import app, app_compare, app_docker, app_limit, app_proof, app_run
from suite.cli_options import (
    Busy,
    Device,
    Engine,
    EngineName,
    Format,
    Frameworks,
    GpuChoice,
    IfBusy,
    Keep,
    MemoryLimit,
    Models,
    ParityFormat,
    Pythons,
    Results,
    RunName,
    Tracks,
)
from suite.engines.choice import Wanted
from suite.manifest import PROOF_STEPS
from suite.report import table

cli = typer.Typer(
    name="dlsuite",
    help=(
        "The same deep-learning work in every framework, proven to be the same, and measured.\n\n"
        "Exit codes: 0 done; 1 a bug; 2 usage; 3 manifest; 4 data; 5 no engine, image or "
        "environment; 6 results; 7 a run failed; 8 parity failed; 9 conformance failed; "
        "10 another dlsuite is at work; 11 slower than allowed; 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="Obtain and check datasets.", no_args_is_help=True)
cli.add_typer(data, name="data")
images = typer.Typer(help="Build and check the container images.", no_args_is_help=True)
cli.add_typer(images, name="images")


@cli.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of failures.")] = False,
) -> None:
    app.settings.debug = debug


@cli.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite's name (dlsuite list) or a .yaml file.")],
    framework: Frameworks = None,
    model: Models = None,
    batch_size: Annotated[int | None, typer.Option(help="In place of the suite's.")] = None,
    track: Tracks = None,
    epochs: Annotated[
        int | None, typer.Option(help="Whole epochs of each trial's first run; 0: none.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each trial.")] = None,
    turns: Annotated[
        bool,
        typer.Option(
            "--turns", help="A workload's frameworks run at once, block by block in turn."
        ),
    ] = False,
    proof_steps: Annotated[
        int | None, typer.Option(help="Training steps to compare, in place of the suite's.")
    ] = None,
    verify_runs: Annotated[
        bool,
        typer.Option(
            "--verify-runs", help="Prove the last steps of every run, not only of the first."
        ),
    ] = False,
    results: Results = Path("results"),
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    keep: Keep = False,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Run a suite: prove the frameworks do the same work, time them, show the table.

    Example: dlsuite run quick --framework pytorch --framework pytorch:compiled
    """
    app_run.run(
        suite,
        frameworks=framework or [],
        models=model or [],
        tracks=track or [],
        batch_size=batch_size,
        epochs=epochs,
        repeats=repeats,
        turns=turns,
        proof_steps=proof_steps,
        verify_runs=verify_runs,
        results=results,
        wanted=Wanted(
            engine=engine.value, gpus=gpus, memory=memory, keep=keep, pythons=tuple(python or ())
        ),
        if_busy=if_busy.value,
    )


@cli.command()
def resume(
    run: RunName = Path("latest"),
    results: Results = Path("results"),
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Finish a run that was interrupted or killed; nothing complete is done again.

    Example: dlsuite resume results/20261121-120000-quick
    """
    app_run.resume(run, results=results, if_busy=if_busy.value)


@cli.command()
def parity(
    model: Models = None,
    framework: Frameworks = None,
    suite: Annotated[
        str | None,
        typer.Option(help="The suite to prove; default: quick, or zoo where a model is named."),
    ] = None,
    track: Tracks = None,
    steps: Annotated[int, typer.Option(help="Training steps to compare.")] = PROOF_STEPS,
    format: Annotated[ParityFormat, typer.Option(help="table, or markdown.")] = ParityFormat.table,
    fresh: Annotated[bool, typer.Option(help="Compare again, whatever is cached.")] = False,
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Compare each framework with a float64 reference over ten training steps.

    Example: dlsuite parity --model resnet50 --framework mxnet
    """
    app_proof.parity(
        suite,
        frameworks=framework or [],
        models=model or [],
        tracks=track or [],
        steps=steps,
        as_markdown=format is ParityFormat.markdown,
        fresh=fresh,
        wanted=Wanted(engine=engine.value, gpus=gpus, memory=memory, pythons=tuple(python or ())),
        if_busy=if_busy.value,
    )


@cli.command()
def selftest(
    framework: Frameworks = None,
    engine: EngineName = Engine.auto,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Plant faults in copies of the worker, one by one, and see that a proof finds each.

    Twelve show in the steps of the certificate, six only in a timed run. With the docker engine
    each fault gets an image, which is removed afterwards.
    """
    app_proof.self_test(
        frameworks=framework or [], wanted=Wanted(engine=engine.value), if_busy=if_busy.value
    )


@cli.command()
def report(
    run: RunName = Path("latest"),
    format: Annotated[Format, typer.Option(help="table, or json and nothing else.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Show the summary of a run.

    Example: dlsuite report results/latest --format json
    """
    app.report(run, results=results, as_json=format is Format.json)


@cli.command()
def limit(
    framework: Frameworks = None,
    format: Annotated[Format, typer.Option(help="table, or json and nothing else.")] = Format.table,
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Measure what the device can do at most: matrix products in each precision, and copies.

    `dlsuite run` does so too, and says how near each row comes to it.
    """
    app_limit.limit(
        framework or [],
        as_json=format is Format.json,
        wanted=Wanted(engine=engine.value, gpus=gpus, memory=memory, pythons=tuple(python or ())),
        if_busy=if_busy.value,
    )


@cli.command()
def compare(
    a: Annotated[
        str, typer.Argument(help="A run, FRAMEWORK:VARIANT/TRACK of the last, or RUN@ that.")
    ],
    b: Annotated[str, typer.Argument(help="The same; it is this side that is faster or slower.")],
    fail_if_slower: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Exit with 11 where b is slower by more (3%)."),
    ] = None,
    format: Annotated[Format, typer.Option(help="table, or json and nothing else.")] = Format.table,
    results: Results = Path("results"),
) -> None:
    """Say whether b is faster or slower than a, or that no difference is shown.

    Examples: dlsuite compare results/before results/after --fail-if-slower 3% ;
    dlsuite compare pytorch jax
    """
    app_compare.compare(
        a,
        b,
        fail_if_slower=fail_if_slower,
        as_json=format is Format.json,
        results=results,
    )


@data.command()
def prepare(
    name: Annotated[str, typer.Argument(help="The dataset (dlsuite list).")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Only this folder, which holds the raw files or images."),
    ] = None,
) -> None:
    """Obtain a dataset from the first source that has it, verify it, convert it.

    An image folder (imagenet) is decoded once; interrupted, the same command goes on.

    Example: dlsuite data prepare mnist --from ~/mnist
    """
    app.prepare(name, source)


@data.command()
def verify(name: Annotated[str, typer.Argument(help="The dataset (dlsuite list).")]) -> None:
    """Read every prepared file and compare its checksum."""
    app.verify(name)


@cli.command("list")
def list_all() -> None:
    """Show the frameworks with their variants, the models, datasets and suites."""
    app.list_all()


@cli.command()
def doctor() -> None:
    """Say what this machine can run and what is missing, each with the next command."""
    app.doctor()


@cli.command()
def conformance(
    command: Annotated[
        list[str], typer.Argument(help="The worker's command; a trial's folder is appended.")
    ],
) -> None:
    """Put a worker, in any language, through the protocol's test (docs/protocol.md).

    Example: dlsuite conformance -- ./my-worker --fast
    """
    app.conformance(command)


@images.command("build")
def build_images(
    framework: Frameworks = None,
    device: Device = "cpu",
    fresh: Annotated[bool, typer.Option(help="Build even what is current.")] = False,
) -> None:
    """Build the images that are missing or stale.

    Example: dlsuite images build --framework pytorch --device cuda
    """
    app_docker.build(framework or [], device, fresh=fresh)


@images.command("list")
def list_images(framework: Frameworks = None) -> None:
    """Show each image: current with its size, stale, or not built."""
    app_docker.list_images(framework or [])


@images.command("verify")
def verify_images(framework: Frameworks = None, device: Device = "cpu") -> None:
    """Check each image: current, with this very worker in it, its framework imports."""
    app_docker.verify(framework or [], device)


@images.command("prune")
def prune_images() -> None:
    """Remove images that are no longer current, and the leftovers of builds."""
    app_docker.prune()


@cli.command()
def shell(
    framework: Annotated[str, typer.Argument(help="The framework (dlsuite list).")],
    command: Annotated[list[str] | None, typer.Argument(help="In place of a shell.")] = None,
    dataset: Annotated[str, typer.Option(help="What lies in /data.")] = "mnist",
    gpus: GpuChoice = "0",
    memory: MemoryLimit = None,
) -> None:
    """Open a framework's container as a trial sees it: data in /data, the worker on its path.

    Example: dlsuite shell pytorch
    """
    wanted = Wanted(gpus=gpus, memory=memory)
    raise typer.Exit(app_docker.shell(framework, command or [], dataset=dataset, wanted=wanted))


@cli.command()
def clean(
    data: Annotated[bool, typer.Option("--data", help="Data volumes too.")] = False,
    others: Annotated[
        bool, typer.Option("--others", help="Also what other machines or caches left.")
    ] = False,
) -> None:
    """Remove what killed or kept runs left on the engine and in the cache.

    A run that is to be resumed should be resumed first: its finished containers go too.
    """
    app_docker.clean(data=data, others=others)


def main() -> None:
    """Run the command line; a failure becomes one line, a hint and its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    errors = table.console(stderr=True)
    try:
        cli()
    except Exception as error:
        if app.settings.debug:
            traceback.print_exc()
        known = app.known(error)
        errors.print(f"error: {known}", markup=False, soft_wrap=True)
        errors.print(f"hint: {known.hint}", markup=False, soft_wrap=True)
        sys.exit(known.exit_code)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
