"""How long the index of many records takes, and the history from it.

The records are copies of those of a real run (results/latest), a hundred in each run. Prints the
seconds for building the index of a half and of all of them, for adding one more run, and for
`dlsuite history`, each in a process of its own.

Usage: .venv/bin/python scripts/history_speed.py [RECORDS] [RUN]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from report_speed import write_copies

IN_RUN = 100
FIRST = datetime(2026, 1, 1)


def write_runs(source: Path, numbers: range, results: Path) -> None:
    """Write runs with these numbers, an hour apart."""
    for number in numbers:
        folder = results / f"{FIRST + timedelta(hours=number):%Y%m%d-%H%M%S}-copies"
        folder.mkdir()
        write_copies(source, IN_RUN, folder)


def seconds(folder: Path, *arguments: str) -> float:
    """The duration of the process `dlsuite` with the cache in `folder`."""
    command = [str(Path(sys.executable).with_name("dlsuite")), *arguments]
    started = time.perf_counter()
    subprocess.run(
        [*command, "--results", str(folder / "results")],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "DLSUITE_HOME": str(folder / "home")},
    )
    return time.perf_counter() - started


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 10_000
    source = Path(sys.argv[2] if sys.argv[2:] else "results/latest").resolve()
    runs = count // IN_RUN
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "results").mkdir()
        write_runs(source, range(runs // 2), folder / "results")
        first = seconds(folder, "query", "select count(*) from records")
        print(f"index of {runs // 2 * IN_RUN:,} records: {first:.1f} s")
        write_runs(source, range(runs // 2, runs), folder / "results")
        second = seconds(folder, "query", "select count(*) from records")
        print(f"index of {(runs - runs // 2) * IN_RUN:,} more: {second:.1f} s")
        write_runs(source, range(runs, runs + 1), folder / "results")
        added = seconds(folder, "query", "select count(*) from records")
        print(f"index of one more run: {added:.2f} s")
        for format in ("table", "json", "csv"):
            times = sorted(seconds(folder, "history", "--format", format) for _ in range(5))
            print(f"history as {format}: {times[2]:.2f} s (median of 5)")


if __name__ == "__main__":
    main()
