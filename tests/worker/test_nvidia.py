"""nvidia-smi's answers: whole, half, late, with banners and errors. A stub on PATH gives them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.worker import nvidia
from suite.worker.nvidia import Found, find

Stub = Callable[..., None]
FIRST = "GPU-1, NVIDIA H200, 570.124.06, 143771 MiB, Default"
SECOND = "GPU-2, NVIDIA H200, 570.124.06, 143771 MiB, Default"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Put a nvidia-smi on PATH: what it prints for the query, for -L, and its exit code."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def make(query: str | bytes, listed: str = "", *, code: int = 0, script: str = "") -> None:
        (tmp_path / "query").write_bytes(query if isinstance(query, bytes) else query.encode())
        (tmp_path / "listed").write_text(listed)
        program = tmp_path / "nvidia-smi"
        program.write_text(
            f"#!/bin/sh\n{script}\n"
            f'[ "$1" = -L ] && exec cat {tmp_path}/listed\ncat {tmp_path}/query\nexit {code}\n'
        )
        program.chmod(0o755)

    return make


def names(found: Found) -> list[str]:
    return [gpu["name"] for gpu in found.gpus]


def test_the_fields_of_each_gpu(smi: Stub) -> None:
    smi(f"{FIRST}\n{SECOND}\n")
    found = find()
    assert found.problem is None and [gpu["uuid"] for gpu in found.gpus] == ["GPU-1", "GPU-2"]
    assert found.gpus[0] == {
        "uuid": "GPU-1",
        "name": "NVIDIA H200",
        "driver_version": "570.124.06",
        "memory.total": "143771 MiB",
        "compute_mode": "Default",
    }


@pytest.mark.parametrize(
    ("row", "name", "memory"),
    [
        ("GPU-1, Quadro, Inc. 4000, 570.1, 8 MiB, Default", "Quadro, Inc. 4000", "8 MiB"),
        ("GPU-1, Orin (nvgpu), 540.4.0, [N/A], [N/A]", "Orin (nvgpu)", None),
        ("GPU-1, GB10, 580.95, [Not Supported], Default", "GB10", None),
        ("GPU-1, H200, 570.1, 143771 MiB", "H200", "143771 MiB"),
    ],
)
def test_names_with_commas_and_unknown_values(
    smi: Stub, row: str, name: str, memory: str | None
) -> None:
    smi(row)
    (gpu,) = find().gpus
    assert (gpu["name"], gpu["memory.total"]) == (name, memory)


def test_a_byte_that_is_not_utf8_is_replaced(smi: Stub) -> None:
    smi(b"GPU-1, NVIDIA \xff H200, 570.1, 80 MiB, Default\n")
    assert names(find()) == ["NVIDIA \ufffd H200"]


def test_a_banner_is_no_gpu_and_no_problem(smi: Stub) -> None:
    smi(f"Welcome to node 7, have fun [ok]\n\n{FIRST}\n")
    assert (names(find()), find().problem) == (["NVIDIA H200"], None)


def test_several_lost_gpus_are_counted(smi: Stub) -> None:
    smi(f"{FIRST}\nGPU-2, [GPU is lost]\nGPU-3, [GPU is lost]\n")
    assert find().problem == "nvidia-smi: GPU-2, [GPU is lost] (one of 2 such lines)"


@pytest.mark.parametrize(
    ("query", "code", "problem"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 570.124",
            18,
            "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch (exit code 18)",
        ),
        ("No devices were found", 0, "nvidia-smi: No devices were found"),
        ("No devices were found", 6, "nvidia-smi: No devices were found (exit code 6)"),
        ("", 0, "nvidia-smi: no answer"),
        ("GPU-1, NVIDIA H2", 0, "nvidia-smi: GPU-1, NVIDIA H2"),
    ],
)
def test_without_a_gpu_the_reason_is_in_its_own_words(
    smi: Stub, query: str, code: int, problem: str
) -> None:
    smi(query, code=code)
    assert find() == Found(problem=problem)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error", 255),
        ("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error", 0),
        ("GPU-2, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]", 0),
        ("GPU-2, NVIDIA H200, [Unknown Err", 1),
        ("GPU-2, NVIDIA H200, 570.1, [GPU requires reset], [GPU requires reset]", 0),
    ],
)
def test_one_lost_gpu_leaves_the_others(smi: Stub, line: str, code: int) -> None:
    smi(f"{FIRST}\n{line}\n", code=code)
    found = find()
    assert [gpu["uuid"] for gpu in found.gpus] == ["GPU-1"]
    assert found.problem is not None and line in found.problem


def test_a_late_answer_is_named_and_its_part_is_used(
    smi: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "TIMEOUT_S", 0.3)
    smi("", script=f"echo '{FIRST}'; exec sleep 20")
    found = find()
    assert names(found) == ["NVIDIA H200"]
    assert found.problem == "nvidia-smi did not answer within 0.3 s"


LISTED = """\
GPU 0: NVIDIA A100 (UUID: GPU-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-aa)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-GPU-1/7/0)
GPU 1: NVIDIA A100 (UUID: GPU-2)
"""


def test_a_divided_board_is_replaced_by_its_slices(smi: Stub) -> None:
    smi(f"{FIRST}\n{SECOND}\n", LISTED)
    first, second, whole = find().gpus
    assert (first["uuid"], first["name"]) == ("MIG-aa", "NVIDIA H200 MIG 3g.20gb")
    assert (first["memory.total"], first["board"], first["slice"]) == ("20 GB", "GPU-1", "0:0")
    assert (second["uuid"], second["memory.total"]) == ("MIG-GPU-1/7/0", "5 GB")
    assert whole["uuid"] == "GPU-2" and "board" not in whole


def test_a_missing_program_is_said_and_wsl_has_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(nvidia, "PLACES", (str(tmp_path),))
    found = find()
    assert found.missing and found.problem == "nvidia-smi: not on PATH"
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{FIRST}'\n")
    program.chmod(0o755)
    assert names(find()) == ["NVIDIA H200"]
