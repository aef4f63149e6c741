"""Virtual environments, one for each framework and lock: built once, and reused.

An environment contains exactly its lock. It has no pip: the host's pip installs into it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TextIO

from packaging.version import Version

from suite import locks
from suite.engines import pip_settings
from suite.engines.base import Prepared
from suite.engines.errors import FrameworkUnavailable
from suite.engines.pip import PipOutput, answers
from suite.engines.venv import interpreters
from suite.engines.venv.output import lines_of
from suite.errors import EngineError
from suite.manifests.devices import KINDS, DeviceKind
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.paths import LOCKS, digest, home
from suite.worker import child
from suite.worker.endings import ended
from suite.worker.programs import ask

SILENT_S = 1800.0  # pip prints a line for each package; the largest ones have a gigabyte
CHECK_S = 600.0  # Julia compiles a package when it is used for the first time
# Compiling all bytecode takes most of the time; workers compile what they import.
PIP_OPTIONS = ("--no-compile", "--no-input", "--progress-bar=off", "--disable-pip-version-check")
# Wheels for an older Python may have any of these tags.
CHILD_PLATFORMS = ("manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64")


class Builds:
    """The builds of one engine, in its threads."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.installers: set[subprocess.Popen[bytes]] = set()

    def stop(self) -> None:
        """End the builds in other threads, and refuse new ones."""
        self.stopping.set()
        for pip in list(self.installers):
            _terminate(pip)


def _terminate(pip: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pip.pid, signal.SIGTERM)  # pip has a child process


def ready(
    manifest: FrameworkManifest,
    notify: Notify,
    *,
    kind: DeviceKind = "cpu",
    builds: Builds | None = None,
) -> Prepared:
    """The framework's environment, built now if there is no complete one.

    For a CPU the locks are tried in the manifest's order. Raise FrameworkUnavailable if there is no
    lock or no interpreter fits, EngineError if no lock can be installed.
    """
    interpreter, version = _interpreter(manifest)
    if manifest.child:
        _found(manifest, manifest.child.python)
    _check(manifest)
    folders = _folders(manifest, version, kind)
    if not folders:
        other = "GPU" if kind == "cpu" else "CPU"
        raise FrameworkUnavailable(
            f"{manifest.title} has no lock for a {KINDS[kind].title} (docker/{manifest.name})",
            hint=f"exclude it with --framework, or use a {other}",
        )
    for lock, folder in folders.items():
        if is_ready(folder):
            return _prepared(manifest, folder, lock)
    builds = builds or Builds()
    errors = []
    for lock, folder in folders.items():
        with _locked(folder, builds):
            if builds.stopping.is_set():
                break
            error = None
            if not is_ready(folder):
                error = _build(manifest, interpreter, lock, folder, notify, builds)
        if error is None:
            return _prepared(manifest, folder, lock)
        errors.append(f"{lock.name}: {error}")
    raise EngineError(
        f"{manifest.title} cannot be installed: {'; '.join(errors)}",
        hint=f"see {log_path(manifest)}, check the network and pip's settings, then:"
        " dlsuite doctor",
    )


def needs_nothing(manifest: FrameworkManifest, kind: DeviceKind = "cpu") -> bool:
    """Whether the framework has a complete environment, or can have none here."""
    try:
        _, version = _interpreter(manifest)
        folders = _folders(manifest, version, kind)
    except FrameworkUnavailable:
        return True
    return not folders or any(map(is_ready, folders.values()))


def of_user(manifest: FrameworkManifest, python: Path) -> Prepared:
    """The user's interpreter, which has the framework; EngineError if it does not start."""
    packages = interpreters.packages(python)
    return Prepared(
        framework=manifest.name,
        python=python,
        lock_sha256=digest(packages),
        lock="\n".join(packages),
        own_python=True,
    )


def environment(manifest: FrameworkManifest, lock: Path, tag: str) -> Path:
    """The folder of an environment; `tag` names the Python version (py311)."""
    key = digest([_sha256(manifest, lock), tag])[:12]
    return home() / "environments" / f"{manifest.name}-{lock.stem}-{tag}-{key}"


def is_ready(folder: Path) -> bool:
    """Whether the environment in `folder` is complete, and its interpreter still exists."""
    return (folder / "ready").exists() and (folder / "bin" / "python").exists()


def log_path(manifest: FrameworkManifest) -> Path:
    """The log of the framework's last build."""
    return home() / "environments" / f"{manifest.name}.log"


def _interpreter(manifest: FrameworkManifest) -> tuple[Path, Version]:
    """The interpreter for a new environment; FrameworkUnavailable if there is none."""
    if manifest.is_debians:
        raise FrameworkUnavailable(
            f"{manifest.title} is a package of Debian {manifest.base}: it runs only in containers",
            hint=f"dlsuite images build --framework {manifest.name}, then: --engine docker",
        )
    return _found(manifest, manifest.python)


def _found(manifest: FrameworkManifest, python: str) -> tuple[Path, Version]:
    """An interpreter in this range; FrameworkUnavailable if there is none."""
    found = interpreters.find(python)
    if found is None:
        raise FrameworkUnavailable(
            f"{manifest.title} needs Python {python}, and there is none on PATH, in pyenv or in uv",
            hint=f"install one (uv python install, pyenv install), then: dlsuite run quick"
            f" --framework {manifest.name}",
        )
    return found


def _check(manifest: FrameworkManifest) -> None:
    """Raise FrameworkUnavailable where the framework is the user's, and is not here."""
    answer = ask(manifest.check, timeout_s=CHECK_S) if manifest.check else None
    if answer and answer.problem:
        first = next(iter(answer.errors.splitlines()), answer.problem)  # then comes a stack
        raise FrameworkUnavailable(
            f"{manifest.title} is not on this machine: {first}",
            hint=f"see docs/how-to/papers.md; then: {shlex.join(manifest.check)}",
        )


def _folders(manifest: FrameworkManifest, version: Version, kind: DeviceKind) -> dict[Path, Path]:
    """The folder of the environment of each existing lock, in the order of the attempts."""
    tag = f"py{version.major}{version.minor}"
    names = manifest.locks if kind == "cpu" else (KINDS[kind].lock,)
    locks = [LOCKS / manifest.name / name for name in names]
    return {lock: environment(manifest, lock, tag) for lock in locks if lock.exists()}


def _lock_text(manifest: FrameworkManifest, lock: Path) -> str:
    """A lock, followed by that of the other Python, if the framework has one."""
    paths = [lock, lock.with_name(manifest.child.lock)] if manifest.child else [lock]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def _sha256(manifest: FrameworkManifest, lock: Path) -> str:
    return digest([_lock_text(manifest, lock)])


def _prepared(manifest: FrameworkManifest, folder: Path, lock: Path) -> Prepared:
    return Prepared(
        framework=manifest.name,
        python=folder / "bin" / "python",
        lock_sha256=_sha256(manifest, lock),
        lock=_lock_text(manifest, lock),
    )


def _build(
    manifest: FrameworkManifest,
    interpreter: Path,
    lock: Path,
    folder: Path,
    notify: Notify,
    builds: Builds,
) -> str | None:
    """Build the environment, and mark it as ready last; return the error, or None."""
    shutil.rmtree(folder, ignore_errors=True)  # an incomplete one
    notify(f"{manifest.title}: building its environment ({lock.parent.name}/{lock.name})")
    output = PipOutput(manifest.title, notify)
    with log_path(manifest).open("w", encoding="utf-8") as log:
        error = _venv(interpreter, folder, log) or _install(
            _pip(manifest, lock, folder), log, output, builds
        )
        if manifest.child and not error:
            other, version = _found(manifest, manifest.child.python)
            place = folder / child.FOLDER
            command = _pip_of_child(lock.with_name(manifest.child.lock), place, version)
            error = _venv(other, place, log) or _install(command, log, output, builds)
    if error:
        shutil.rmtree(folder, ignore_errors=True)
        return error
    (folder / "ready").touch()
    return None


def _venv(interpreter: Path, folder: Path, log: TextIO) -> str | None:
    """Make an environment without packages; return the error, or None."""
    made = subprocess.run(
        [interpreter, "-m", "venv", "--without-pip", folder],
        stdout=log,
        stderr=log,
        env=pip_settings.environment(),
        check=False,
    )
    return f"venv {ended(made.returncode, Path(log.name))}" if made.returncode else None


def _pip(manifest: FrameworkManifest, lock: Path, folder: Path) -> list[str]:
    """The command that installs a lock into an environment."""
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    command += ["install", *PIP_OPTIONS, "--require-hashes", "-r", str(lock)]
    if manifest.cpu_index and lock.name == "cpu.txt" and answers(manifest.cpu_index):
        command += ["--extra-index-url", manifest.cpu_index]
    return command


def _pip_of_child(lock: Path, folder: Path, version: Version) -> list[str]:
    """The command that installs a lock for a Python in which the host's pip cannot run."""
    python = f"{version.major}.{version.minor}"
    packages = folder / "lib" / f"python{python}" / "site-packages"
    command = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS, "--target", str(packages)]
    command += ["--python-version", python, "--only-binary", ":all:"]
    command += [f"--platform={name}" for name in CHILD_PLATFORMS]
    return [*command, "--no-deps", "--require-hashes", "-r", str(lock)]


def _install(command: list[str], log: TextIO, output: PipOutput, builds: Builds) -> str | None:
    """Run pip; return its last error, or None if it succeeded.

    pip itself has no limit where a server sends a byte now and then.
    """
    last = ""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=pip_settings.environment(),
        start_new_session=True,  # Ctrl-C is handled by Builds.stop
    ) as pip:
        builds.installers.add(pip)
        if builds.stopping.is_set():  # since the last check
            _terminate(pip)
        with _Silence(SILENT_S, pip) as silence:
            for last in lines_of(pip):
                silence.restart()
                log.write(last)
                output.line(last)
    builds.installers.discard(pip)
    if silence.ended:
        return f"pip printed nothing for {SILENT_S / 60:g} min after: {last.strip()}"
    return (output.error or f"pip {ended(pip.returncode)}") if pip.returncode else None


class _Silence:
    """Ends a process that is silent for a time."""

    def __init__(self, limit_s: float, process: subprocess.Popen[bytes]) -> None:
        self._limit_s, self._process = limit_s, process
        self.ended = False
        self._timer = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def restart(self) -> None:
        """Begin the time again: the process has printed something."""
        self._timer.cancel()
        self._timer = self._started()

    def _started(self) -> threading.Timer:
        timer = threading.Timer(self._limit_s, self._end)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self) -> None:
        self.ended = True
        _terminate(self._process)


@contextmanager
def _locked(folder: Path, builds: Builds) -> Iterator[None]:
    """Let one process build an environment; others wait for it, until they are stopped."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_suffix(".lock")
    descriptor = locks.opened(path)
    try:
        while not builds.stopping.is_set() and not locks.try_lock(descriptor, path):
            builds.stopping.wait(0.2)
        yield
    finally:
        os.close(descriptor)
