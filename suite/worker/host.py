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

from . import cgroup, nvidia, processors

# Of this package, all that it needs.
MODULES = ("__init__", "cgroup", "host", "nvidia", "processors", "programs")


def describe(*, gpus: bool = False) -> dict[str, Any]:
    """A description of this machine; unreadable values are null.

    The limits of the process's control groups are part of the machine: `cpus` and `memory_bytes`
    are what they allow. `gpus`: with the GPUs, and the reason where nvidia-smi does not answer; it
    may take seconds.
    """
    found = nvidia.find() if gpus else nvidia.Found()
    limits = cgroup.limits()
    own = processors.usable(processors.allowed(), limits.cpus)
    return {
        "os": _os_name(),
        "kernel": platform.release(),
        "boot_id": boot_id(),
        "machine": platform.machine(),
        "cpu": processors.model(),
        "cpu_features": processors.features(),
        "cpus": own,
        "cpu_quota": limits.cpus,
        "logical_cpus": os.cpu_count(),
        "isolated_cpus": processors.isolated(own),
        "governor": processors.governor(own[0]),
        "memory_bytes": _memory_bytes(limits.memory_bytes),
        "memory_limit_bytes": limits.memory_bytes,
        "pids_limit": limits.pids,
        "gpus": found.gpus,
        "gpus_problem": found.problem,
        "load_average_1min": os.getloadavg()[0],
    }


def boot_id() -> str | None:
    """What identifies this start of the machine: its monotonic clocks are one clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def cpus() -> list[int]:
    """The logical CPUs on which a worker computes: one of each physical core that it may use.

    Workers are pinned to them: every framework has the same cores and, by default or by its module,
    as many threads.
    """
    return processors.usable(processors.allowed(), cgroup.limits().cpus)


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (AttributeError, OSError, KeyError, ValueError):  # Python 3.9 has no such function
        return platform.system()


def _memory_bytes(limit_bytes: int | None) -> int | None:
    """The memory of the machine, or the limit where that is less."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return limit_bytes
    return min(installed, limit_bytes or installed)


if __name__ == "__main__":
    print(json.dumps(describe(gpus="--gpus" in sys.argv)))
