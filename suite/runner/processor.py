"""What the instructions of this machine's CPU can do."""

from __future__ import annotations

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# The flags of instructions that multiply bfloat16: x86 and ARM.
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def has_bfloat16() -> bool:
    """Whether the CPU has instructions for bfloat16; False where Linux does not report it."""
    try:
        text = CPUINFO.read_text(encoding="utf-8")
    except OSError:
        return False
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    return any(not BFLOAT16.isdisjoint(line.split()) for line in lines)
