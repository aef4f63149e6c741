"""The host as it is: what every record says of the machine it was made on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import suite


def describe() -> dict[str, Any]:
    """Facts of this host; what cannot be read is null."""
    return {
        "dlsuite": suite.__version__,
        "os": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpus": cpus(),
        "logical_cpus": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "python": platform.python_version(),
        "load_average_1min": os.getloadavg()[0],
    }


def cpus() -> list[int]:
    """One logical CPU of each physical core that this process may use: what a worker is pinned to.

    Every framework then has the same cores and, by default or by its module, as many threads.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0))
    cores = {_core(cpu): cpu for cpu in reversed(allowed)}
    return sorted(cores.values())


def _core(cpu: int) -> str:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return _read(topology) or str(cpu)


def cpu_model() -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or None


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
