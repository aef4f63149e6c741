"""The machine as this process sees it; `python host.py` prints its description.

It imports only the standard library, so that the orchestrator and a bare base image can use it too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

GPU_FIELDS = ("uuid", "name", "driver_version", "memory.total")


def describe() -> dict[str, Any]:
    """A description of this machine; unreadable values are null."""
    return {
        "os": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": cpus(),
        "logical_cpus": os.cpu_count(),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_bytes": _memory_bytes(),
        "gpus": gpus(),
        "load_average_1min": os.getloadavg()[0],
    }


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


def gpus() -> list[dict[str, str]]:
    """The NVIDIA GPUs that nvidia-smi reports to this process."""
    query = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader"]
    try:
        reply = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in reply.stdout.splitlines()]
    return [dict(zip(GPU_FIELDS, row)) for row in rows if len(row) == len(GPU_FIELDS)]


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
    print(json.dumps(describe()))
