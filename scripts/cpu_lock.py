"""Maintainers: make cpu.txt from a cuda.txt that contains PyTorch (called by scripts/lock).

On Linux torch becomes torch+cpu, with the digests in a file in the format of sha256sum, and the
packages that only the CUDA build needs are omitted. On other systems the default wheel has no CUDA
and is kept.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CUDA_ONLY = re.compile(r"^(nvidia-(?!ml-py)|cuda-|jax-cuda|triton)")


def main(cuda_lock: Path, wheels: Path, cpu_lock: Path) -> None:
    header, *entries = re.split(r"\n(?=[a-z])", cuda_lock.read_text(encoding="utf-8").rstrip())
    kept = []
    for entry in entries:
        if entry.startswith("torch=="):
            kept += [_cpu(entry, wheels), _elsewhere(entry)]
        elif not CUDA_ONLY.match(entry):
            kept.append(entry)
    cpu_lock.write_text("\n".join([header, *kept]) + "\n", encoding="utf-8")


def _cpu(entry: str, wheels: Path) -> str:
    pin = entry.split()[0]
    digests = [line.split()[0] for line in wheels.read_text(encoding="utf-8").splitlines()]
    hashes = " \\\n    ".join(f"--hash=sha256:{digest}" for digest in digests)
    return f"{pin}+cpu ; sys_platform == 'linux' \\\n    {hashes}"


def _elsewhere(entry: str) -> str:
    pin, _, hashes = entry.partition(" \\\n")
    return f"{pin} ; sys_platform != 'linux' \\\n{hashes}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
