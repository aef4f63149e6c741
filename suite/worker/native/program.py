"""The compiled worker of a framework: it replaces this process.

`python -m suite.worker.native.program FRAMEWORK` compiles it, as the recipe of the images does.
The program lies in the framework's environment, in a folder that is named by the digest of its
sources and its compiler.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .. import telemetry
from ..cgroup import Throttling
from ..programs import ask
from ..protocol import Trial

NATIVE = Path(__file__).parent
FRAMEWORKS = NATIVE.parent / "frameworks"
PROGRAM = "worker"
SAMPLER, STARTED = "DLSUITE_SAMPLER", "DLSUITE_STARTED_NS"  # variables that main.cpp reads
QUOTAS = "DLSUITE_CPU_STAT"  # and disturbance.cpp
ANSWER_S = 60.0  # for a version
COMPILE_S = 1200.0
LOG_LINES = 5  # of the compiler that end in the error
COMPILER = "install make and g++ (Debian: apt-get install g++ make)"


def is_native(framework: str) -> bool:
    """Whether the framework's worker is a compiled program."""
    return (FRAMEWORKS / framework / "native.py").exists()


def ready(framework: str) -> Path:
    """The program, compiled now if there is none; RuntimeError where that fails."""
    folder = Path(sys.prefix) / "dlsuite-native" / f"{framework}-{_digest(framework)}"
    if not (folder / PROGRAM).exists():
        folder.parent.mkdir(exist_ok=True)
        part = Path(tempfile.mkdtemp(suffix=".part", dir=folder.parent))
        try:
            _compile(framework, part)
            part.chmod(0o755)  # only its user can enter a temporary folder; containers have another
            part.rename(folder)
        except OSError:  # another process made it first
            if not (folder / PROGRAM).exists():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder / PROGRAM


def replace(program: Path, trial: Trial, folder: Path) -> None:
    """Become the program, which runs the trial in `folder`; its sampler is already started."""
    sampler = telemetry.start(trial)
    if sampler:
        assert sampler.stdin
        os.set_inheritable(sampler.stdin.fileno(), True)  # it ends the sampler when it is closed
        os.environ[SAMPLER] = f"{sampler.pid} {sampler.stdin.fileno()}"
    os.environ[QUOTAS] = "\n".join(map(str, Throttling().files))
    os.environ[STARTED] = str(time.monotonic_ns())
    os.execv(program, [str(program), str(folder)])


def version(framework: str) -> str:
    """The version of the framework's library, as the program reports it."""
    answer = ask([ready(framework), "--version"], timeout_s=ANSWER_S)
    if answer.problem:
        raise RuntimeError(f"the worker in C++ does not start: {answer.problem}")
    return answer.output.strip()


def _compile(framework: str, output: Path) -> None:
    jobs = f"--jobs={len(os.sched_getaffinity(0))}"
    command = ["make", "--silent", "--directory", str(NATIVE), jobs]
    command += [f"FRAMEWORK={framework}", f"PREFIX={sys.prefix}", f"OUTPUT={output}"]
    answer = ask(command, timeout_s=COMPILE_S)
    if answer.problem:
        lines = [line for line in answer.errors.splitlines() if "error" in line]
        reason = "; ".join(lines[:LOG_LINES]) or answer.problem
        raise RuntimeError(f"the worker cannot be compiled: {reason}")


def _digest(framework: str) -> str:
    """A digest of the sources of a program and of its compiler."""
    found = hashlib.sha256(_compiler().encode())
    for folder in (NATIVE, FRAMEWORKS / framework):
        for path in sorted(folder.iterdir()):
            if path.suffix in (".cpp", ".h", ".mk") or path.name == "Makefile":
                found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]


def _compiler() -> str:
    """The compiler and its version; RuntimeError where make or the compiler is missing."""
    words = shlex.split(os.environ.get("CXX") or "g++")  # CXX may be `ccache g++`
    if not shutil.which("make"):
        raise RuntimeError(f"the worker in C++ has no compiler: {COMPILER}")
    answer = ask([*words, "--version"], timeout_s=ANSWER_S)
    if answer.problem:
        raise RuntimeError(
            f"the worker in C++ has no compiler, {answer.problem}: set CXX, or {COMPILER}"
        )
    return answer.output


if __name__ == "__main__":
    if is_native(sys.argv[1]):
        print(ready(sys.argv[1]))
