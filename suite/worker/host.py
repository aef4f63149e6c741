"""The machine as this process sees it; `python -m suite.worker.host [--gpus]` prints it.

It and what it imports (MODULES) use only the standard library, so that the orchestrator and a bare
base image can use them too.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from . import nvidia

MODULES = ("__init__", "host", "nvidia", "programs")  # of this package, all that it needs


def describe(*, gpus: bool = False) -> dict[str, Any]:
    """A description of this machine; unreadable values are null.

    `gpus`: with the GPUs, and the reason where nvidia-smi does not answer; it may take seconds.
    """
    found = nvidia.find() if gpus else nvidia.Found()
    return {
        "os": _os_name(),
        "kernel": platform.release(),
        "boot_id": boot_id(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": cpus(),
        "logical_cpus": os.cpu_count(),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_bytes": _memory_bytes(),
        "gpus": found.gpus,
        "gpus_problem": found.problem,
        "load_average_1min": os.getloadavg()[0],
    }


def boot_id() -> str | None:
    """What identifies this start of the machine: its monotonic clocks are one clock."""
    return _read(Path("/proc/sys/kernel/random/boot_id"))


def cpus() -> list[int]:
    """One logical CPU of each physical core that this process may use.

    Workers are pinned to them: every framework has the same cores and, by default or by its module,
    as many threads.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0))
    cores = {_core(cpu): cpu for cpu in reversed(allowed)}
    return sorted(cores.values())


def _core(cpu: int) -> str:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return _read(topology) or str(cpu)


def _cpu_model() -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or None


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (AttributeError, OSError, KeyError):  # Python 3.9 does not have the function
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


if __name__ == "__main__":
    print(json.dumps(describe(gpus="--gpus" in sys.argv)))
