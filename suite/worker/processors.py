"""The processor: its model, and the cores that a worker may compute on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from .cgroup import text_of

ROOT = Path("/")
CPUS = "sys/devices/system/cpu"
# The registers that name an ARM core; most kernels for ARM report no name of the model.
ARM_FIELDS = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")


def model(root: Path = ROOT) -> str | None:
    """The name of the processor; of an ARM processor without one, what identifies it.

    Types of cores that differ are all named: their rates and results may differ.
    """
    blocks = text_of(root / "proc/cpuinfo").split("\n\n")
    fields = [dict(_pair(line) for line in block.splitlines()) for block in blocks]
    names = dict.fromkeys(found["model name"] for found in fields if found.get("model name"))
    if names:
        return " + ".join(names)
    arm = dict.fromkeys(_arm_core(found) for found in fields if found.get("CPU part"))
    # Two boards with the same cores may differ in caches and memory.
    board = text_of(root / "sys/firmware/devicetree/base/model").strip("\0")
    parts = [*filter(None, [board]), *arm]
    other = next((found["cpu"] for found in fields if found.get("cpu")), None)  # of POWER
    return ", ".join(parts) or other or platform.processor() or platform.machine() or None


def features(root: Path = ROOT) -> str | None:
    """A digest of the instructions of the processor, by the kernel's names.

    Virtual machines of one name may have different ones, and libraries choose their code by them.
    """
    for line in text_of(root / "proc/cpuinfo").splitlines():
        name, value = _pair(line)
        if name in ("flags", "Features", "isa"):
            return hashlib.sha256(" ".join(sorted(value.split())).encode()).hexdigest()[:12]
    return None


def usable(allowed: Iterable[int], quota: float | None = None, root: Path = ROOT) -> list[int]:
    """One logical CPU of each physical core on which a worker computes.

    `allowed` are those of the process. Of different types of cores only the fastest are used, since
    the slowest thread decides when a step ends. The kernel does not move threads between isolated
    CPUs, so these are used only where there are no others. A CPU `quota` allows its whole number of
    cores, at least one: with more, all threads would wait for the slowest period.
    """
    shared = _without(allowed, cpu_list(text_of(root / CPUS / "isolated")))
    fastest = _fastest(shared, root)
    cores = {_core(cpu, root): cpu for cpu in sorted(fastest, reverse=True)}
    found = sorted(cores.values())
    return found if quota is None else found[: max(1, int(quota))]


def isolated(cpus: Iterable[int], root: Path = ROOT) -> bool:
    """Whether one of these CPUs is isolated from the kernel's scheduler."""
    return not set(cpus).isdisjoint(cpu_list(text_of(root / CPUS / "isolated")))


def governor(cpu: int, root: Path = ROOT) -> str | None:
    """The rule by which the kernel sets the frequency of a CPU; None where it does not."""
    return text_of(root / CPUS / f"cpu{cpu}/cpufreq/scaling_governor") or None


def cpu_list(text: str) -> set[int]:
    """The CPUs in a list of the kernel, such as 0-3,8; none in a text of another form."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if match := re.fullmatch(r"(\d+)(?:-(\d+))?", part):
            found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _without(cpus: Iterable[int], excluded: set[int]) -> set[int]:
    """The CPUs without the excluded ones; all where none would be left."""
    return set(cpus) - excluded or set(cpus)


def _fastest(cpus: set[int], root: Path) -> set[int]:
    """The CPUs of the fastest type among these."""
    efficient = cpu_list(text_of(root / "sys/devices/cpu_atom/cpus"))  # Intel's hybrid processors
    rest = _without(cpus, efficient)
    capacity = {cpu: text_of(root / CPUS / f"cpu{cpu}/cpu_capacity") for cpu in rest}  # ARM's
    known = {cpu: int(text) for cpu, text in capacity.items() if text.isdigit()}
    most = max(known.values(), default=0)
    return {cpu for cpu in rest if known.get(cpu, most) == most}


def _core(cpu: int, root: Path) -> str:
    """What the logical CPUs of one physical core have in common."""
    return text_of(root / CPUS / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)


def _arm_core(fields: dict[str, str]) -> str:
    return "ARM " + " ".join(fields[name] for name in ARM_FIELDS if name in fields)


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def allowed() -> list[int]:
    """The logical CPUs on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
