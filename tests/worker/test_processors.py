"""The model and the usable cores of processors; the files are those that such machines show."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.worker import processors

INTEL = "processor\t: {0}\nmodel name\t: Intel(R) Core(TM) i9-13900K\nflags\t\t: fpu avx2\n"
GRAVITON = (
    "processor\t: {0}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: {1}\nCPU revision\t: 1\n"
)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def cpuinfo(*cores: str) -> dict[str, str]:
    return {"proc/cpuinfo": "\n".join(cores)}


def test_the_model_of_an_x86_processor(tmp_path: Path) -> None:
    root = machine(tmp_path, cpuinfo(INTEL.format(0), INTEL.format(1)))
    assert processors.model(root) == "Intel(R) Core(TM) i9-13900K"


def test_arm_processors_without_a_name_differ_by_their_parts(tmp_path: Path) -> None:
    one = processors.model(machine(tmp_path / "a", cpuinfo(GRAVITON.format(0, "0xd40"))))
    other = processors.model(machine(tmp_path / "b", cpuinfo(GRAVITON.format(0, "0xd4f"))))
    assert one == "ARM 0x41 0xd40 0x1 1"
    assert one != other


def test_an_arm_processor_of_two_types_of_cores_names_both_and_its_board(tmp_path: Path) -> None:
    files = cpuinfo(GRAVITON.format(0, "0xd05"), GRAVITON.format(1, "0xd41"))
    board = {"sys/firmware/devicetree/base/model": "Radxa ROCK 5B\0"}
    found = processors.model(machine(tmp_path, files | board))
    assert found == "Radxa ROCK 5B, ARM 0x41 0xd05 0x1 1, ARM 0x41 0xd41 0x1 1"


def test_machines_of_one_name_differ_by_their_instructions(tmp_path: Path) -> None:
    virtual = "model name\t: Intel Xeon Processor\nflags\t\t: fpu avx2{0}\n"
    one = processors.features(machine(tmp_path / "a", cpuinfo(virtual.format(""))))
    other = processors.features(machine(tmp_path / "b", cpuinfo(virtual.format(" avx512f"))))
    reordered = "model name\t: Intel Xeon Processor\nflags\t\t: avx2 fpu\n"
    assert one != other
    assert one == processors.features(machine(tmp_path / "c", cpuinfo(reordered)))
    assert processors.features(tmp_path / "none") is None


def siblings(*pairs: str) -> dict[str, str]:
    """The file of each logical CPU, which names those of its core."""
    return {
        f"{processors.CPUS}/cpu{cpu}/topology/thread_siblings_list": pair
        for pair in pairs
        for cpu in processors.cpu_list(pair)
    }


def test_one_logical_cpu_of_each_core(tmp_path: Path) -> None:
    root = machine(tmp_path, siblings("0,4", "1,5", "2-3"))
    assert processors.usable(range(6), root=root) == [0, 1, 2]
    assert processors.usable([3, 4, 5], root=root) == [3, 4, 5]  # a cpuset without CPU 0


@pytest.mark.parametrize(
    ("quota", "expected"), [(0.5, [0]), (1.0, [0]), (1.5, [0]), (2.9, [0, 1]), (64, [0, 1, 2])]
)
def test_a_quota_allows_its_whole_number_of_cores(
    quota: float, expected: list[int], tmp_path: Path
) -> None:
    assert processors.usable(range(3), quota, root=tmp_path) == expected


def test_of_a_hybrid_processor_the_performance_cores(tmp_path: Path) -> None:
    files = siblings("0-1", "2-3") | {"sys/devices/cpu_atom/cpus": "4-7"}
    root = machine(tmp_path, files)
    assert processors.usable(range(8), root=root) == [0, 2]
    assert processors.usable([5, 6], root=root) == [5, 6]  # the user chose efficient ones


def test_of_big_little_the_cores_with_the_highest_capacity(tmp_path: Path) -> None:
    capacity = {0: "446", 1: "446", 2: "1024", 3: "1024"}
    files = {f"{processors.CPUS}/cpu{cpu}/cpu_capacity": text for cpu, text in capacity.items()}
    assert processors.usable(range(4), root=machine(tmp_path, files)) == [2, 3]


def test_isolated_cpus_are_used_only_where_there_are_no_others(tmp_path: Path) -> None:
    root = machine(tmp_path, {f"{processors.CPUS}/isolated": "2-3\n"})
    assert processors.usable(range(4), root=root) == [0, 1]
    assert not processors.isolated([0, 1], root)
    assert processors.usable([2, 3], root=root) == [2, 3]
    assert processors.isolated([2, 3], root)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("5\n", {5}), ("(null)", set())],
)
def test_lists_of_cpus(text: str, expected: set[int]) -> None:
    assert processors.cpu_list(text) == expected


def test_the_governor_is_that_of_a_cpu_which_is_online(tmp_path: Path) -> None:
    root = machine(tmp_path, {f"{processors.CPUS}/cpu2/cpufreq/scaling_governor": "powersave\n"})
    assert processors.governor(2, root) == "powersave"
    assert processors.governor(0, root) is None
