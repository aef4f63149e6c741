"""One virtual environment for each framework and lock: built once, and reused.

It has no pip of its own: the host's pip installs into it, so it contains exactly the lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from suite.engines.venv import interpreters
from suite.engines.base import FrameworkUnavailable, Prepared
from suite.messages import Notify
from suite.engines.pip import PipOutput, answers
from suite.errors import EngineError
from suite.manifests.frameworks import FrameworkManifest
from suite.paths import LOCKS, digest, home, sha256

CUDA_LOCK = "cuda.txt"

_stopping = threading.Event()
_installers: set[subprocess.Popen[str]] = set()


def ready(manifest: FrameworkManifest, notify: Notify, *, gpus: bool = False) -> Prepared:
    """The framework's environment, built now if there is no complete one.

    For a CPU the locks are tried in the manifest's order. Raise FrameworkUnavailable where no
    interpreter fits, EngineError where no lock can be installed.
    """
    found = interpreters.find(manifest.python)
    if found is None:
        raise FrameworkUnavailable(
            f"{manifest.title} needs Python {manifest.python}, and none was found on PATH, "
            "among pyenv's or uv's",
            hint=f"install one (uv python install, pyenv install), then: dlsuite run quick"
            f" --framework {manifest.name}",
        )
    interpreter, version = found
    names = (CUDA_LOCK,) if gpus else manifest.locks
    locks = [LOCKS / manifest.name / name for name in names]
    tag = f"py{version.major}{version.minor}"
    for lock in locks:
        place = environment(manifest, lock, tag)
        if is_ready(place):
            return _prepared(manifest, place, lock)
    reasons = []
    for lock in locks:
        place = environment(manifest, lock, tag)
        with _alone(place):
            if _stopping.is_set():
                break
            if not is_ready(place):
                reason = _build(manifest, interpreter, lock, place, notify)
                if reason:
                    reasons.append(f"{lock.name}: {reason}")
                    continue
        return _prepared(manifest, place, lock)
    raise EngineError(
        f"{manifest.title} cannot be installed: {'; '.join(reasons)}",
        hint=f"see {log_path(manifest)}, check the network and pip's settings, then:"
        " dlsuite doctor",
    )


def own(manifest: FrameworkManifest, python: Path) -> Prepared:
    """An interpreter of the user that has the framework; EngineError where it does not start."""
    found = interpreters.packages(python)
    return Prepared(
        framework=manifest.name, python=python, lock_sha256=digest(found), own_python=True
    )


def stop() -> None:
    """End the builds in other threads, and refuse new ones."""
    _stopping.set()
    for pip in list(_installers):
        with suppress(ProcessLookupError):
            os.killpg(pip.pid, signal.SIGTERM)  # pip has a child process


def environment(manifest: FrameworkManifest, lock: Path, tag: str) -> Path:
    key = digest([sha256(lock), tag])[:12]
    return home() / "environments" / f"{manifest.name}-{lock.stem}-{tag}-{key}"


def is_ready(place: Path) -> bool:
    """Whether it is complete, and its interpreter still exists."""
    return (place / "ready").exists() and (place / "bin" / "python").exists()


def log_path(manifest: FrameworkManifest) -> Path:
    return home() / "environments" / f"{manifest.name}.log"


def _prepared(manifest: FrameworkManifest, place: Path, lock: Path) -> Prepared:
    python = place / "bin" / "python"
    return Prepared(framework=manifest.name, python=python, lock_sha256=sha256(lock))


def _build(
    manifest: FrameworkManifest, interpreter: Path, lock: Path, place: Path, notify: Notify
) -> str | None:
    """Build in place and mark ready last; return why it failed, or None."""
    shutil.rmtree(place, ignore_errors=True)  # an incomplete one
    notify(f"{manifest.title}: building its environment ({lock.parent.name}/{lock.name})")
    with log_path(manifest).open("w", encoding="utf-8") as log:
        made = subprocess.run(
            [interpreter, "-m", "venv", "--without-pip", place],
            stdout=log,
            stderr=log,
            check=False,
        )
        if made.returncode:
            return "venv failed"
        reason = _install(_pip(manifest, lock, place), log, notify, manifest.title)
    if reason:
        shutil.rmtree(place, ignore_errors=True)
        return reason
    (place / "ready").touch()
    return None


def _pip(manifest: FrameworkManifest, lock: Path, place: Path) -> list[str]:
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
    command += ["install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--require-hashes", "-r", str(lock)]
    if manifest.cpu_index and lock.name == "cpu.txt" and answers(manifest.cpu_index):
        command += ["--extra-index-url", manifest.cpu_index]
    return command


def _install(command: list[str], log: TextIO, notify: Notify, title: str) -> str | None:
    """Run pip, and return its last error, or None where all went well."""
    output = PipOutput(title, notify)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is handled by stop()
    ) as pip:
        assert pip.stdout is not None
        _installers.add(pip)
        for line in pip.stdout:
            log.write(line)
            output.line(line)
    _installers.discard(pip)
    return (output.error or "pip failed") if pip.returncode else None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Let one process build an environment while others wait for it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
