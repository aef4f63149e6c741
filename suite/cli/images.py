"""The commands `images build`, `list`, `verify`, `push`, `pull`, `export` and `prune`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.cli.options import Device, Frameworks
from suite.cli.session import progress
from suite.engines import sessions
from suite.engines.errors import FrameworkUnavailable
from suite.errors import EngineError, RunsFailed
from suite.manifests import catalog
from suite.paths import replacing
from suite.protocol.expansion import parse
from suite.report import table

# The SDK is imported where it is used: it takes a quarter of the start of a command.
if TYPE_CHECKING:
    from suite.engines.docker.images import Images
    from suite.engines.recipe import Recipe

Registry = Annotated[
    str, typer.Argument(help="The registry with its folder: registry.example.org/lab.")
]
images = typer.Typer(help="Build and verify the container images.", no_args_is_help=True)


@images.command()
def build(
    framework: Frameworks = None,
    device: Device = "cpu",
    fresh: Annotated[bool, typer.Option("--fresh", help="Build current images again.")] = False,
) -> None:
    """Build the images that are missing or stale.

    Those of frameworks that are packages of an older Debian only where they are named, or were
    built before.

    Example: dlsuite images build --framework pytorch --device cuda
    """
    with _images() as known, progress() as live:
        for recipe in _usual(known, framework or [], device):
            if fresh:
                built = known.build(recipe, live.notify, fresh=True)
            else:
                built = known.ready(recipe, live.notify)
            size = f"{built.size_bytes / 1e6:,.0f} MB"
            live.notify(f"{recipe.manifest.title}: {recipe.tag} {built.image_id[7:19]}, {size}")


@images.command("list")
def list_images(framework: Frameworks = None) -> None:
    """Show each image: current with its size, stale, or not built."""
    from suite.engines.recipe import KINDS

    rows = []
    with _images() as known:
        for device in KINDS:
            for recipe in _recipes(known, framework or [], device):
                image = known.current(recipe)
                size = f"{image.size_bytes / 1e6:,.0f} MB" if image else ""
                rows.append(
                    {
                        "image": recipe.tag,
                        "id": image.image_id[7:19] if image else "",
                        "size": size,
                        "state": "current" if image else known.absence(recipe),
                    }
                )
    left = ("image", "id", "state")
    table.console().print(table.of_rows("Images", rows, left=left, folded=("state",)))


@images.command()
def verify(framework: Frameworks = None, device: Device = "cpu") -> None:
    """Check each image: it is current, contains this worker, and imports its framework.

    Without names: the images that `images build` builds without names. A broken image is no
    longer current: `images build` builds it again, without the engine's cache.
    """
    from suite.engines.docker.engine import DockerEngine

    failed = 0
    shown = table.console()
    session_id = sessions.new_id()
    with sessions.session(session_id), DockerEngine(session_id) as engine:
        for recipe in _usual(engine.images, framework or [], device):
            image = engine.images.current(recipe)
            if image is None:
                problem = engine.images.absence(recipe)
            else:
                problem = engine.check(recipe, image) or ""
                if problem:
                    engine.images.reject(recipe, image)
            failed += bool(problem)
            shown.print(f"{recipe.tag}: {problem or 'ok'}", soft_wrap=True)
    if failed:
        command = f"dlsuite images build --device {device}"
        raise RunsFailed(f"{failed} images are stale or broken", hint=command)


@images.command()
def export(
    folder: Annotated[Path, typer.Argument(help="The folder; it is made where it is missing.")],
    framework: Frameworks = None,
    device: Device = "cpu",
) -> None:
    """Write each image to a file, for Apptainer on a cluster. A file that exists is kept.

    Example: dlsuite images export images --device cuda
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _images() as known, progress() as live:
        for recipe in _usual(known, framework or [], device):
            file = folder / f"{recipe.file_name}.tar"
            if not file.exists():
                known.ready(recipe, live.notify)
                with replacing(file) as part, part.open("wb") as opened:
                    known.daemon.save_image(recipe.exact_tag, opened)
            live.notify(f"{recipe.manifest.title}: {file}, {file.stat().st_size / 1e6:,.0f} MB")


@images.command()
def push(
    registry: Registry,
    framework: Frameworks = None,
    device: Device = "cpu",
    pins: Annotated[
        Path, typer.Option(metavar="FILE", help="Gets the digest and the id of each image.")
    ] = Path("images.json"),
) -> None:
    """Push each image to a registry, so that other machines need not build it.

    Example: dlsuite images push registry.example.org/lab --device cuda
    """
    from suite.engines.docker import registry as registries
    from suite.engines.docker.pins import Pins, key, write

    pushed = {}
    with _images() as known, progress() as live:
        for recipe in _usual(known, framework or [], device):
            found = registries.push(known, recipe, registry, live.notify)
            pushed[key(recipe)] = found
            live.notify(f"{recipe.manifest.title}: {found.reference}")
    write(pins, Pins(images=pushed))
    print(f"{pins}: next, elsewhere: dlsuite images pull {registry} --pins {pins}")


@images.command()
def pull(
    registry: Registry,
    framework: Frameworks = None,
    device: Device = "cpu",
    pins: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of the push: pull by digest, compare the ids."),
    ] = None,
) -> None:
    """Pull each image from a registry; it is current where it has the content of this checkout.

    Example: dlsuite images pull registry.example.org/lab --device cuda --pins images.json
    """
    from suite.engines.docker import registry as registries
    from suite.engines.docker.pins import key, read

    known_pins = read(pins).images if pins else {}
    with _images() as known, progress() as live:
        for recipe in (_recipes if pins else _usual)(known, framework or [], device):
            pushed = known_pins.get(key(recipe))
            if pins and pushed is None:
                if framework:
                    raise EngineError(
                        f"{pins} has no image of {recipe.framework}", hint="dlsuite images push"
                    )
                continue
            image = registries.pull(known, recipe, registry, pushed)
            live.notify(f"{recipe.manifest.title}: {recipe.tag} {image.image_id[7:19]}")


@images.command()
def prune() -> None:
    """Remove images that are no longer current, and the leftovers of builds."""
    from suite.engines.recipe import KINDS, OURS, STAGE

    with _images() as known:
        current = {
            image.image_id
            for device in KINDS
            for recipe in _recipes(known, [], device)
            if (image := known.current(recipe))
        }
        old = [image for image in known.daemon.images(OURS) if image.image_id not in current]
        for image in old:
            known.daemon.remove_image(image.image_id)
        freed = known.daemon.prune_dangling(STAGE)
    print(f"removed {len(old)} images that were not current; build stages: {freed / 1e9:.1f} GB")


@contextmanager
def _images() -> Iterator[Images]:
    from suite.engines.docker.client import Daemon
    from suite.engines.docker.images import Images

    daemon = Daemon()
    try:
        yield Images(daemon)
    finally:
        daemon.close()


def _usual(known: Images, frameworks: list[str], device: str) -> Iterator[Recipe]:
    """Those of `_recipes`, but those of an older Debian only if they are named or were built."""
    for recipe in _recipes(known, frameworks, device):
        if frameworks or not recipe.manifest.is_debians or known.was_built(recipe):
            yield recipe


def _recipes(known: Images, frameworks: list[str], device: str) -> Iterator[Recipe]:
    """The recipes of the named frameworks, or of all that have a lock for the device."""
    from suite.engines.recipe import kind

    manifests, tracks = catalog.frameworks(), catalog.tracks()
    chosen = dict.fromkeys(parse(name, manifests, tracks)[0] for name in frameworks)
    for name in chosen or manifests:
        try:
            yield known.recipe(manifests[name], kind(device))
        except FrameworkUnavailable as error:
            if chosen:
                raise EngineError(str(error), hint=error.hint) from None
