"""The control groups of this process (cgroups, versions 1 and 2): their limits and throttling.

A limit holds for a group and all groups in it, so the smallest one on the way from the process's
own group to the root counts. In a container or a pod, only the groups that are mounted are visible.
https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/")
UNLIMITED = 2**60  # version 1 has a number of this size where there is no limit
NO_LIMIT = ("max", "-1")


@dataclass(frozen=True)
class Limits:
    """The smallest limits of the process's groups; None: not limited, or not readable."""

    cpus: float | None = None  # CPU seconds per second
    memory_bytes: int | None = None
    pids: int | None = None


@dataclass(frozen=True)
class Periods:
    """Periods of the CPU quota, and those in which the group had used it up and had to wait."""

    all: int = 0
    throttled: int = 0


def limits(root: Path = ROOT) -> Limits:
    """The limits of this process. `root` is the folder that holds proc and sys."""
    return Limits(
        cpus=min(_present(map(_cpu_quota, _folders("cpu", root))), default=None),
        memory_bytes=_smallest("memory", ("memory.max", "memory.limit_in_bytes"), root),
        pids=_smallest("pids", ("pids.max",), root),
    )


class Throttling:
    """The counters of the CPU quota; reading them takes microseconds."""

    def __init__(self, root: Path = ROOT) -> None:
        groups = [each for each in _folders("cpu", root) if _cpu_quota(each) is not None]
        self.files = [group / "cpu.stat" for group in groups]

    def __bool__(self) -> bool:
        """Whether a quota limits this process."""
        return bool(self.files)

    def read(self) -> Periods:
        """The counters of all groups with a quota together."""
        found = [_fields(each) for each in self.files]
        return Periods(
            all=sum(each.get("nr_periods", 0) for each in found),
            throttled=sum(each.get("nr_throttled", 0) for each in found),
        )


def _smallest(controller: str, names: tuple[str, ...], root: Path) -> int | None:
    found = (_number(folder / name) for folder in _folders(controller, root) for name in names)
    return min((each for each in found if each is not None and each < UNLIMITED), default=None)


def _cpu_quota(folder: Path) -> float | None:
    """The quota of a group, as a number of CPUs."""
    quota, period = f"{text_of(folder / 'cpu.max')} ".split(" ")[:2]  # version 2
    if not quota:
        quota, period = (text_of(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota in ("", *NO_LIMIT):
        return None
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None


def _folders(controller: str, root: Path) -> list[Path]:
    """The folders of the process's group and of those around it, as far as they are mounted."""
    for version, mount, visible in _mounts(controller, root):
        group = _group(controller, version, root)
        if group is None:
            continue
        # A container sees its own group as the root of the mount, or the path on the host.
        inside = _below(visible, group)
        folder = root / mount.lstrip("/")
        return list(dict.fromkeys(folder / each for each in (inside, *inside.parents)))
    return []


def _below(visible: str, group: str) -> PurePosixPath:
    """The path of a group below the one that is visible; empty where it is not below it."""
    try:
        return PurePosixPath(group).relative_to(visible)
    except ValueError:
        return PurePosixPath()


def _mounts(controller: str, root: Path) -> Iterator[tuple[int, str, str]]:
    """The mounts of a controller: version, folder, and the group that is visible there.

    Version 1 first: where both are mounted, a controller of version 1 is not in version 2.
    """
    found = []
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        mount, visible = (_unescaped(fields[number]) for number in (4, 3))
        if kind[0] == "cgroup" and controller in kind[2].split(","):
            found.append((1, mount, visible))
        elif kind[0] == "cgroup2":
            found.append((2, mount, visible))
    yield from sorted(found, key=lambda each: each[0])


def _group(controller: str, version: int, root: Path) -> str | None:
    """The path of the process's group in a hierarchy; None where it is not in one."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (version == 2 and number == "0") or controller in controllers.split(","):
            return path
    return None


def _unescaped(path: str) -> str:
    """A path of mountinfo, which has a space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _present(values: Iterator[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None)


def _number(path: Path) -> int | None:
    text = text_of(path)
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """The lines `name number` of a file."""
    pairs = (line.split() for line in text_of(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def text_of(path: Path) -> str:
    """The content of a file of the kernel; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
