"""How long a report of many records takes.

The records are copies of those of a real run (results/latest), ten for each trial, with rates of
their own. Each workload is copied with as many learning rates as needed, in inference with as many
sizes of its query library; the plan has all of them.
Prints the seconds and the peak memory of each form, each in a process of its own.

Usage: .venv/bin/python scripts/report_speed.py [RECORDS]
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from suite.protocol.plan import Run, Trial
from suite.results import store
from suite.results.record import Record
from suite.runner import planfile

REPEATS = 10


def write_copies(source: Path, count: int, folder: Path) -> None:
    """Write `count` records to `folder`, their rates within 3 % of those in `source`; the plan."""
    generator = random.Random(folder.name)
    templates: dict[str, list[Record]] = {}
    for record in store.read(source):
        templates.setdefault(record.trial_id, []).append(record)
    planned = planfile.read(source)
    originals = planned.plan.trials
    runs = []
    for number in range(count):
        original = originals[number // REPEATS % len(originals)]
        trial = numbered(original, 1 + number // REPEATS // len(originals))
        run = Run(trial=trial, repeat=number % REPEATS)
        template = generator.choice(templates[original.trial_id])
        changes = {
            "trial_id": trial.trial_id,
            "workload": trial.workload,
            "repeat": run.repeat,
            "samples_per_s": (template.samples_per_s or 1.0) * generator.uniform(0.97, 1.03),
        }
        text = template.model_copy(update=changes).model_dump_json(indent=1)
        (folder / f"{run.name}.json").write_text(text, encoding="utf-8")
        runs.append(run)
    trials = tuple(dict.fromkeys(run.trial for run in runs))
    plan = replace(planned.plan, trials=trials, runs=tuple(runs))
    planfile.write(folder, replace(planned, plan=plan))


def numbered(trial: Trial, number: int) -> Trial:
    """The trial with a learning rate of so many thousandths, or in inference so many queries."""
    changes = {"query_samples": number}
    if optimizer := trial.workload.optimizer:
        changes = {"optimizer": optimizer.model_copy(update={"learning_rate": number / 1000})}
    return replace(trial, workload=trial.workload.model_copy(update=changes))


def measured(command: list[str]) -> tuple[float, int]:
    """The duration of a command in seconds, and the peak of its memory in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 10_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copies"
        folder.mkdir()
        write_copies(Path("results/latest").resolve(), count, folder)
        page = Path(temporary) / "report.html"
        forms = {
            **{name: ["--format", name] for name in ("table", "json", "csv")},
            "html": ["--html", str(page)],
        }
        for name, options in forms.items():
            command = [str(Path(sys.executable).with_name("dlsuite")), "report", str(folder)]
            duration_s, peak_bytes = measured([*command, *options])
            used = f"{duration_s:.1f} s, {peak_bytes / 2**20:.0f} MiB"
            print(f"{count:,} records as {name}: {used}")
        print(f"the page has {page.stat().st_size / 2**10:,.0f} KiB")


if __name__ == "__main__":
    main()
