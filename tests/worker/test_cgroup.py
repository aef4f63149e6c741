"""Limits and throttling of control groups: made ones, and those of a kernel where they can be set.

The files of version 2, of pods and of containers are copies of what such machines show.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.worker import cgroup
from suite.worker.cgroup import Limits, Periods, Throttling

VERSION_1 = Path("/sys/fs/cgroup/cpu")
SPIN = """
import json, sys, time
from dataclasses import asdict
sys.path.insert(0, sys.argv[2])
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
from suite.worker import cgroup, host
throttling = cgroup.Throttling()
before, end = throttling.read(), time.monotonic() + 0.5
while time.monotonic() < end:
    pass
after, found = throttling.read(), host.describe()
facts = {name: found[name] for name in ("cpus", "cpu_quota")}
print(json.dumps([facts, asdict(before), asdict(after)]))
"""


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def version_2(group: str, *, visible: str = "/", controllers: str = "0::") -> dict[str, str]:
    mount = f"30 23 0:26 {visible} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    return {"proc/self/mountinfo": mount, "proc/self/cgroup": f"{controllers}{group}\n"}


def test_without_groups_nothing_is_limited(tmp_path: Path) -> None:
    assert cgroup.limits(tmp_path) == Limits()
    assert not Throttling(tmp_path)
    assert Throttling(tmp_path).read() == Periods()


def test_the_smallest_limit_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        {
            **version_2("/kubepods.slice/pod1/container"),
            "sys/fs/cgroup/kubepods.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/kubepods.slice/memory.max": "8589934592\n",
            "sys/fs/cgroup/kubepods.slice/pod1/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/kubepods.slice/pod1/memory.max": "max\n",
            "sys/fs/cgroup/kubepods.slice/pod1/container/cpu.max": "200000 50000\n",
            "sys/fs/cgroup/kubepods.slice/pod1/container/memory.max": "17179869184\n",
            "sys/fs/cgroup/kubepods.slice/pod1/container/pids.max": "1024\n",
        },
    )
    assert cgroup.limits(root) == Limits(cpus=1.5, memory_bytes=2**33, pids=1024)


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    root = made(tmp_path, {**version_2("/"), "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert cgroup.limits(root).cpus == 0.5


def test_a_group_outside_of_the_mount_is_that_of_the_mount(tmp_path: Path) -> None:
    root = made(tmp_path, {**version_2("/../other"), "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert cgroup.limits(root).cpus == 0.5


def test_version_1_in_a_container_with_the_paths_of_the_host(tmp_path: Path) -> None:
    mounts = (
        "32 31 0:29 /docker/1f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "41 31 0:38 /docker/1f /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n"
    )
    groups = "5:memory:/docker/1f\n2:cpu,cpuacct:/docker/1f/inner\n0::/docker/1f\n"
    cpu = "sys/fs/cgroup/cpu,cpuacct"
    root = made(
        tmp_path,
        {
            "proc/self/mountinfo": mounts,
            "proc/self/cgroup": groups,
            f"{cpu}/cpu.cfs_quota_us": "300000\n",
            f"{cpu}/cpu.cfs_period_us": "100000\n",
            f"{cpu}/cpu.stat": "nr_periods 761\nnr_throttled 757\nthrottled_time 99\n",
            f"{cpu}/inner/cpu.cfs_quota_us": "-1\n",
            f"{cpu}/inner/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cgroup.limits(root) == Limits(cpus=3.0)
    assert Throttling(root).read() == Periods(all=761, throttled=757)


@pytest.mark.parametrize(
    "text", ["", "max", "0 0", "many 100000", "-1", "50000 100000 more"], ids=repr
)
def test_a_quota_of_another_form_is_none(text: str, tmp_path: Path) -> None:
    root = made(tmp_path, {**version_2("/"), "sys/fs/cgroup/cpu.max": text})
    assert cgroup.limits(root).cpus in (None, 0.5)


def test_lines_of_another_form_are_ignored(tmp_path: Path) -> None:
    files = version_2("/")
    files["proc/self/mountinfo"] = "short\n\n1 2 - x\n" + files["proc/self/mountinfo"]
    files["proc/self/cgroup"] = "no colon\n" + files["proc/self/cgroup"]
    root = made(tmp_path, {**files, "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert cgroup.limits(root).cpus == 0.5


def test_a_mount_with_a_space_in_its_path(tmp_path: Path) -> None:
    mount = "30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n"
    files = {"proc/self/mountinfo": mount, "proc/self/cgroup": "0::/\n"}
    root = made(tmp_path, {**files, "sys/fs/c group/cpu.max": "50000 100000\n"})
    assert cgroup.limits(root).cpus == 0.5


@pytest.fixture
def quota() -> Iterator[Path]:
    """A group of this machine, with a twentieth of a CPU, that holds another group."""
    outer = VERSION_1 / f"dlsuite-{uuid.uuid4().hex[:8]}"
    inner = outer / "inner"
    try:
        inner.mkdir(parents=True)
        (outer / "cpu.cfs_quota_us").write_text("5000")
    except OSError as error:
        pytest.skip(f"no group of version 1 can be made here: {error.strerror}")
    yield inner
    inner.rmdir()
    outer.rmdir()


def test_a_real_quota_around_the_group_is_found_and_its_throttling_counted(quota: Path) -> None:
    command = [sys.executable, "-c", SPIN, str(quota), str(Path(cgroup.__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    facts, before, after = json.loads(done.stdout)
    assert facts["cpu_quota"] == 0.05
    assert len(facts["cpus"]) == 1
    assert after["all"] > before["all"]
    assert after["throttled"] > before["throttled"]
