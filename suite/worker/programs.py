"""Asks other programs, with a limit of time, and keeps the reason where there is no answer.

Every program that answers a question (nvidia-smi, squeue, npm, git) is started here. A program can
be missing, late, silent, or fail after a part of its answer: the part and the reason are kept, and
the caller decides.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLOSE_S = 2.0  # for the output of a killed program


@dataclass(frozen=True)
class Answer:
    """What a program printed, and why it is not a whole answer."""

    output: str = ""  # standard output; bytes that are not UTF-8 are replaced
    problem: str | None = None  # in the program's own words; None: it ended with exit code 0
    exit_code: int | None = None  # None: it did not start, or was too late

    @property
    def missing(self) -> bool:
        """Whether the program did not start: it is not installed, or is not executable."""
        return self.problem is not None and self.exit_code is None and not self.late

    late: bool = False  # whether it was killed at its limit of time
    errors: str = ""  # standard error, where it failed


def ask(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: Path | None = None,
) -> Answer:
    """Run a program to its end; after `timeout_s` it and its children are killed.

    Its standard input is a file or nothing, so it cannot wait for a user.
    """
    name = Path(command[0]).name
    try:
        with (stdin or Path(os.devnull)).open("rb") as given:
            process = subprocess.Popen(
                [str(each) for each in command],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=None if environment is None else dict(environment),
                start_new_session=True,  # its children can be killed with it
            )
    except OSError as error:
        # A folder on PATH that is another user's makes a missing program "Permission denied".
        absent = isinstance(error, FileNotFoundError) or not shutil.which(command[0], os.F_OK)
        reason = "not on PATH" if absent else error.strerror
        return Answer(problem=f"{name}: {reason}")
    try:
        output, errors = _communicate(process, timeout_s)
    except subprocess.TimeoutExpired:
        output = _killed(process)
        return Answer(_text(output), f"{name} did not answer within {timeout_s:g} s", late=True)
    except BaseException:
        _killed(process)
        raise
    return _ended(name, process.returncode, _text(output), _text(errors))


def _communicate(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[bytes, bytes]:
    """What a program prints until it ends; TimeoutExpired after `timeout_s`.

    A daemon that it started may hold the output open: then what came until CLOSE_S is the answer.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        ended = process.poll() is not None
        try:
            return process.communicate(timeout=min(CLOSE_S, max(0, deadline_s - time.monotonic())))
        except subprocess.TimeoutExpired as open_:
            if ended:
                return open_.stdout or b"", open_.stderr or b""
            if time.monotonic() >= deadline_s:
                raise


def _killed(process: subprocess.Popen[bytes]) -> bytes:
    """Kill a program with its children; return what it printed."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=CLOSE_S)[0]
    except subprocess.TimeoutExpired as left:  # a child in another session holds the output
        return left.stdout or b""


def _ended(name: str, code: int, output: str, errors: str) -> Answer:
    if code == 0:
        return Answer(output, exit_code=0)
    lines = (errors.strip() or output.strip()).splitlines()
    ending = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    problem = f"{name}: {lines[-1].strip()} ({ending})" if lines else f"{name}: {ending}"
    return Answer(output, problem, code, errors=errors)


def _text(content: Any) -> str:
    return (content or b"").decode("utf-8", errors="replace")
