"""Proves imported models in every framework, and prints a table of how many are proven.

    python scripts/imported_everywhere.py NAME.model.json ...

One training step of batch size 8 on generated data, in the usual variant of each framework
(docs/measurements/imports.md has results).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet", "keras", "paddle")
HEAD = ("model", *FRAMEWORKS)


def main(paths: list[str]) -> None:
    print("| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|", flush=True)
    for path in paths:
        shares = _shares(path)
        cells = [shares.get(framework, "no") for framework in FRAMEWORKS]
        print(f"| {Path(path).name.partition('.')[0]} | {' | '.join(cells)} |", flush=True)


def _shares(path: str) -> dict[str, str]:
    """The largest share of its tolerance of each framework that is proven."""
    command = [Path(sys.executable).with_name("dlsuite"), "parity", "--engine", "venv"]
    command += ["--model", path, "--steps", "1", "--format", "markdown"]
    for framework in FRAMEWORKS:
        command += ["--framework", framework]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in reply.stdout.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if len(rows) < 3:
        print(*reply.stderr.splitlines()[-2:], sep="\n", file=sys.stderr)
    named = [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]
    return {
        row["framework"].partition(":")[0]: row["share"] for row in named if row["proven"] == "yes"
    }


if __name__ == "__main__":
    main(sys.argv[1:])
