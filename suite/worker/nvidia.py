"""The NVIDIA GPUs that nvidia-smi reports: boards, or their MIG slices."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .programs import Answer, ask

FIELDS = ("uuid", "name", "driver_version", "memory.total", "compute_mode")
TIMEOUT_S = 20.0  # of each question
PLACES = ("/usr/lib/wsl/lib",)  # where nvidia-smi is if not on PATH: WSL2
# A name may have commas, and older drivers have other words for an unknown value.
UNKNOWN = r"\[[^\]]*\]|N/A"
ROW = re.compile(
    r"(?P<uuid>(?:GPU|MIG)-\S+), (?P<name>.+?), (?P<driver>\d[\d.]*|" + UNKNOWN + r"), "
    r"(?P<memory>\d+ \w+|" + UNKNOWN + r")"
    r"(?:, (?P<mode>Default|Exclusive_\w+|Prohibited|" + UNKNOWN + r"))?"
)
BOARD = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)")
SLICE = re.compile(r"MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)\s]+)\)")
CAPABILITY = re.compile(r"(GPU-\S+), (\d+\.\d+)")
PROFILE_MEMORY = re.compile(r"\.(\d+)gb")  # of a slice's profile: 1g.10gb+me

COMPLAINT = re.compile(r"error|fail|unable|lost|mismatch|^(GPU|MIG)-", re.IGNORECASE)
UNUSABLE = re.compile(r"\[[^\]]*(reset|lost|error)", re.IGNORECASE)  # a value of a broken board

# By the names in FIELDS, and `compute_cap` where it is known; of a slice also `board` and `slice`.
Gpu = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """The GPUs of this process, and why the list may be incomplete or empty."""

    gpus: list[Gpu] = field(default_factory=list)
    problem: str | None = None
    missing: bool = False  # whether there is no nvidia-smi


def find() -> Found:
    """Ask nvidia-smi; it may take seconds, so commands for a CPU do not call this.

    A board that is divided by MIG is replaced by its slices, which are what CUDA can use.
    """
    program = _program()
    query = [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    rows = ask(query, timeout_s=TIMEOUT_S)
    boards, others = _boards(rows.output)
    if not boards:
        reason = _complaint(rows, others) or f"nvidia-smi: {''.join(others[-1:]) or 'no answer'}"
        return Found(problem=reason, missing=rows.missing)
    _add_capabilities(program, boards)
    listed = ask([program, "-L"], timeout_s=TIMEOUT_S)
    slices = _slices(listed.output, boards)
    gpus = [gpu for uuid, board in boards.items() for gpu in slices.get(uuid) or [board]]
    return Found(gpus, _complaint(rows, others) or listed.problem)


def _program() -> str:
    found = shutil.which("nvidia-smi")
    places = (Path(place) / "nvidia-smi" for place in PLACES)
    return found or next((str(each) for each in places if each.is_file()), "nvidia-smi")


def _boards(output: str) -> tuple[dict[str, Gpu], list[str]]:
    """The boards by UUID, and the lines that describe none."""
    boards: dict[str, Gpu] = {}
    others = []
    for line in filter(None, map(str.strip, output.splitlines())):
        row = ROW.fullmatch(line)
        if row and _known(row["name"]) and not UNUSABLE.search(line):
            boards.setdefault(row["uuid"], dict(zip(FIELDS, map(_known, row.groups()))))
        else:  # a banner, a part of a line, or a board that the driver has lost
            others.append(line)
    return boards, others


def _add_capabilities(program: str, boards: dict[str, Gpu]) -> None:
    """Add the compute capability of each board; older drivers cannot be asked for it."""
    query = [program, "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    for line in ask(query, timeout_s=TIMEOUT_S).output.splitlines():
        found = CAPABILITY.fullmatch(line.strip())
        if found and found[1] in boards:
            boards[found[1]]["compute_cap"] = found[2]


def _known(text: str | None) -> str | None:
    """A value; None where nvidia-smi does not know it."""
    return None if text is None or re.fullmatch(UNKNOWN, text) else text


def _slices(output: str, boards: dict[str, Gpu]) -> dict[str, list[Gpu]]:
    """The MIG slices of each board, by its UUID, in nvidia-smi's order."""
    found: dict[str, list[Gpu]] = {}
    for number, uuid, profile, place, own in _lines_of_slices(output):
        board = boards.get(uuid)
        if board is None:
            continue
        size = PROFILE_MEMORY.search(profile)
        slice_ = {
            **board,
            "uuid": own,
            "name": f"{board['name']} MIG {profile}",
            "memory.total": f"{size[1]} GB" if size else None,
            "board": uuid,
            "slice": f"{number}:{place}",
        }
        found.setdefault(uuid, []).append(slice_)
    return found


def _lines_of_slices(output: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Number and UUID of the board, then profile, number and UUID of the slice."""
    number = uuid = ""
    for line in output.splitlines():
        if board := BOARD.match(line.strip()):
            number, uuid = board.groups()
        elif found := SLICE.match(line.strip()):
            yield number, uuid, found[1], found[2], found[3]


def _complaint(answer: Answer, others: list[str]) -> str | None:
    """Why the answer is not whole, in the program's own words; None where it is."""
    complaints = [line for line in others if COMPLAINT.search(line)]
    if not complaints:
        return answer.problem
    code = f" (exit code {answer.exit_code})" if answer.exit_code else ""
    more = f" (one of {len(complaints)} such lines)" if len(complaints) > 1 else ""
    return f"nvidia-smi: {complaints[0]}{more}{code}"
