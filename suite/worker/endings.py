"""How a process ended, in words: its exit code or signal, with the likely cause."""

from __future__ import annotations

import signal
from pathlib import Path

CAUSES = {
    "SIGKILL": "the kernel sends it when memory runs out",
    "SIGTERM": "an engine that shuts down sends it, and so does docker stop",
    "SIGILL": "the package of the framework uses an instruction that this processor lacks",
    "SIGBUS": "/dev/shm or the disk is full, or a file that it had mapped was truncated",
    "SIGSEGV": "invalid access to memory: a fault of the framework, or of a library or driver that"
    " does not fit it",
    "SIGFPE": "a division by zero in compiled code of the framework",
    "SIGABRT": "a library gave up",
    "SIGSYS": "a system call that the container's or the cluster's seccomp policy forbids",
    "SIGXCPU": "the limit of CPU time (ulimit -t)",
    "SIGXFSZ": "the limit of the size of a file (ulimit -f)",
    "SIGHUP": "its terminal or connection was closed",
}
CODES = {
    126: "its program cannot be executed: its permissions, noexec, or another architecture",
    127: "its program, or a library that the program needs, was not found",
}
# Sets of instructions that packages are compiled for, as /proc/cpuinfo names them.
INSTRUCTIONS = ("sse4_2", "avx", "fma", "avx2")
CPUINFO = Path("/proc/cpuinfo")
MAX_LINE = 300  # characters of the last line of a log


def killing_signal(code: int) -> str | None:
    """The name of the signal in a negative exit code; None of another code or real-time signal."""
    return signal.Signals(-code).name if -code in set(signal.Signals) else None


def ended(code: int, log: Path | None = None, *, here: bool = True) -> str:
    """A clause about a process that reported no error; `log` is its standard error.

    `here`: whether it ran on this machine, whose processor is then examined.
    """
    line = _last_line(log)
    name = killing_signal(code)
    if name is None:
        text = f"exited with code {code}"
        if line:
            return f"{text}: {line}"
        return f"{text}: {CODES[code]}" if code in CODES else f"{text} without reporting an error"
    text = f"was killed by {name}"
    if name in CAUSES:
        text += f"; {CAUSES[name]}"
    lacking = _lacking() if name == "SIGILL" and here else []
    if lacking:
        text += f" (it has no {', '.join(lacking)})"
    outside = name in ("SIGKILL", "SIGTERM", "SIGHUP")  # then its last words are no reason
    return f"{text}; the last line of its log: {line}" if line and not outside else text


def _last_line(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip()[:MAX_LINE] if lines else ""


def _lacking() -> list[str]:
    """The sets of instructions that an x86 processor lacks; none where that is not known."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return [each for each in INSTRUCTIONS if flags and each not in flags]
