"""`scripts/report_speed.py [RECORDS]`: how long a report of many made-up records takes.

The records are copies of one real run's (results/latest), with other names and other rates, three
to a trial. Prints seconds for the table and for JSON, each in a process of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suite.results import record, store
from suite.results.record import Record


def make(templates: list[Record], count: int, folder: Path) -> None:
    """Write `count` records to `folder`, their rates within 3 % of the template's."""
    chance = random.Random(0)
    for number in range(count):
        template = templates[number // 3 % len(templates)]
        name = f"{template.trial_id}-{number // 3}"
        rate = (template.samples_per_s or 1.0) * chance.uniform(0.97, 1.03)
        changes = {"trial_id": name, "repeat": number % 3, "samples_per_s": rate}
        made = template.model_copy(update=changes)
        (folder / f"{made.name}.json").write_text(made.model_dump_json(indent=1), encoding="utf-8")


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 10_000
    templates = store.read(Path("results/latest").resolve())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "made"
        folder.mkdir()
        make(templates, count, folder)
        for form in ("table", "json"):
            command = [str(Path(sys.executable).with_name("dlsuite")), "report", str(folder)]
            started = time.perf_counter()
            subprocess.run([*command, "--format", form], check=True, stdout=subprocess.DEVNULL)
            print(f"{count:,} records as {form}: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
