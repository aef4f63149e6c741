"""The commands about images and containers: put the parts together, print, raise the failures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suite import datasets, manifest, owners
from suite.app_run import progress
from suite.engines.base import EngineLost, FrameworkUnavailable
from suite.engines.choice import Wanted
from suite.engines.containers import DockerEngine, remove_all
from suite.engines.docker import Daemon
from suite.engines.spec import OWNER
from suite.errors import EngineError, RunsFailed
from suite.images import KINDS, OURS, STAGE, Images, Recipe, kind
from suite.plan import parse
from suite.report import table


def build(frameworks: list[str], device: str, *, fresh: bool) -> None:
    """Build the images that are missing or stale, or all of them where `fresh`."""
    with _images() as images, progress() as live:
        for recipe in _recipes(images, frameworks, device):
            built = (images.build if fresh else images.ready)(recipe, live.say)
            size = f"{built.size_bytes / 1e6:,.0f} MB"
            live.say(f"{recipe.manifest.title}: {recipe.tag} {built.image_id[7:19]}, {size}")


def list_images(frameworks: list[str]) -> None:
    """Print every image that can be, and whether it is there and current."""
    shown = table.console()
    with _images() as images:
        for device in KINDS:
            for recipe in _recipes(images, frameworks, device):
                image = images.current(recipe)
                state = (
                    f"{image.image_id[7:19]}, {image.size_bytes / 1e6:,.0f} MB"
                    if image
                    else images.absence(recipe)
                )
                shown.print(f"{recipe.tag}: {state}", soft_wrap=True)


def verify(frameworks: list[str], device: str) -> None:
    """Check that each image is current, holds this worker, and imports its framework."""
    failed = 0
    shown = table.console()
    owner = owners.new_id()
    with owners.owning(owner), DockerEngine(owner) as engine:
        for recipe in _recipes(engine.images, frameworks, device):
            image = engine.images.current(recipe)
            if image is None:
                problem = engine.images.absence(recipe)
            else:
                problem = engine.check(recipe, image) or ""
            failed += bool(problem)
            shown.print(f"{recipe.tag}: {problem or 'ok'}", soft_wrap=True)
    if failed:
        raise RunsFailed(f"{failed} images are not as they must be", hint="dlsuite images build")


def prune() -> None:
    """Remove our images that are no longer current, and what only their builds needed."""
    with _images() as images:
        current = {
            image.image_id
            for device in KINDS
            for recipe in _recipes(images, [], device)
            if (image := images.current(recipe))
        }
        old = [image for image in images.daemon.images(OURS) if image.image_id not in current]
        for image in old:
            images.daemon.remove_image(image.image_id)
        freed = images.daemon.prune_dangling(STAGE)
    print(f"removed {len(old)} images that were not current; build stages: {freed / 1e9:.1f} GB")


def shell(framework: str, command: list[str], *, dataset: str, wanted: Wanted) -> int:
    """Run `command` (a shell) in a framework's container; return its exit code."""
    name, *_ = parse(framework, manifest.frameworks(), manifest.tracks())
    cli = shutil.which("docker") or shutil.which("podman")
    if cli is None:
        raise EngineError(
            "a shell needs the engine's own client, and there is neither docker nor podman",
            hint="install Docker's CLI (docker-ce-cli, docker-cli or docker.io)",
        )
    owner = owners.new_id()
    with owners.owning(owner), DockerEngine(owner, wanted.settings()) as engine:
        with progress() as live:
            prepared = engine.prepare(manifest.framework(name), live.say)
            data = datasets.ready(manifest.dataset(dataset), live.say)
        tty = sys.stdin.isatty()
        with engine.shell(prepared, data, command or ["bash"], tty=tty) as container:
            # The SDK has no terminal to offer; the container is ours, the terminal is the CLI's.
            attach = [cli, "start", "--attach", "--interactive", container.container_id]
            return subprocess.run(attach, check=False).returncode


def clean(*, data: bool, others: bool) -> None:
    """Remove what an orchestrator that lives no more has left, on the engine and in the cache."""
    left = dict.fromkeys(("alive", "unknown"), 0)
    removed = 0
    try:
        daemon = Daemon()
    except EngineLost as error:
        print(f"no engine to clean: {error}")
    else:
        labelled = [c.labels for c in daemon.containers({OWNER: ""})]
        labelled += daemon.volumes({OWNER: ""}).values()
        for owner in {labels[OWNER] for labels in labelled}:
            life = owners.life(owner)
            if life == "dead" or (life == "unknown" and others):
                removed += remove_all(daemon, {OWNER: owner})
            else:
                left[life] += 1
        if data:
            removed += remove_all(daemon, {"dlsuite": "data"})
        daemon.close()
    buried = owners.bury_the_dead()
    print(f"removed {removed} containers and volumes, and the work folders of {buried} ended runs")
    if left["alive"]:
        print(f"left alone: what {left['alive']} orchestrators at work own")
    if left["unknown"]:
        print(
            f"left alone: what {left['unknown']} orchestrators of other machines or caches own;"
            " dlsuite clean --others removes that too"
        )


@contextmanager
def _images() -> Iterator[Images]:
    daemon = Daemon()
    try:
        yield Images(daemon)
    finally:
        daemon.close()


def _recipes(images: Images, frameworks: list[str], device: str) -> Iterator[Recipe]:
    """Of the frameworks named, or of all that have a lock for the device."""
    known, tracks = manifest.frameworks(), manifest.tracks()
    chosen = dict.fromkeys(parse(name, known, tracks)[0] for name in frameworks)
    for name in chosen or known:
        try:
            yield images.recipe(known[name], kind(device))
        except FrameworkUnavailable as error:
            if chosen:
                raise EngineError(str(error), hint=error.hint) from None
