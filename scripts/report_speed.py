"""How long a report of many records takes.

The records are copies of those of a real run (results/latest) with other names and rates, three for
each trial. Prints the seconds for the table and for JSON, each in a process of its own.

Usage: .venv/bin/python scripts/report_speed.py [RECORDS]
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suite.results import store
from suite.results.record import Record


def make(templates: list[Record], count: int, folder: Path) -> None:
    """Write `count` records to `folder`, their rates within 3 % of the template's."""
    generator = random.Random(0)
    for number in range(count):
        template = templates[number // 3 % len(templates)]
        name = f"{template.trial_id}-{number // 3}"
        rate = (template.samples_per_s or 1.0) * generator.uniform(0.97, 1.03)
        changes = {"trial_id": name, "repeat": number % 3, "samples_per_s": rate}
        record = template.model_copy(update=changes)
        path = folder / f"{record.name}.json"
        path.write_text(record.model_dump_json(indent=1), encoding="utf-8")


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 10_000
    templates = store.read(Path("results/latest").resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copies"
        folder.mkdir()
        make(templates, count, folder)
        for format in ("table", "json"):
            command = [str(Path(sys.executable).with_name("dlsuite")), "report", str(folder)]
            started = time.perf_counter()
            subprocess.run([*command, "--format", format], check=True, stdout=subprocess.DEVNULL)
            print(f"{count:,} records as {format}: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
