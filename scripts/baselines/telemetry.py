"""What the telemetry costs: the suite's step with a sampler beside it, and without, in turns.

It is one process that does the steps, and one sampler, which is halted in every other turn: two
processes would differ by more than the sampler costs.

Usage: .venv/bin/python scripts/baselines/telemetry.py [TURNS [FRAMEWORK ...]]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from contenders import Start, in_turns, report, starts

from suite.manifests.workloads import Measure
from suite.results import telemetry
from suite.worker.telemetry import FILE

TURN_S = 2 * Measure().sample_s


def main(turns: int, only: list[str]) -> None:
    for start in starts("lenet", only):
        report(f"{start.trial.configuration}, with telemetry / without", ratios(start, turns))
        print(f"  the sampler itself took {own_share(start.folder / FILE):.2%} of the cores")


def ratios(start: Start, turns: int) -> list[float]:
    """The speed with a sampler over that without, for each pair of turns."""
    worker = start.suite()
    worker.steps(1)
    steps = max(1, round(TURN_S / worker.step_s()))
    module = [start.python, "-m", "suite.worker.telemetry", start.folder / FILE]
    numbers = [str(worker.pid), str(Measure().sample_s), "0"]
    sampler = subprocess.Popen(
        [*module, *numbers],
        env={"PYTHONPATH": str(start.staged)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )

    def with_sampler(steps: int) -> float:
        os.kill(sampler.pid, signal.SIGCONT)
        duration_s = worker.steps(steps)
        os.kill(sampler.pid, signal.SIGSTOP)
        return duration_s

    found = in_turns(with_sampler, worker.steps, steps, turns)
    os.kill(sampler.pid, signal.SIGCONT)
    worker.end()
    sampler.communicate()
    return found


def own_share(file: Path) -> float:
    """The sampler's processor time for each sample, over all cores' time between two."""
    samples = telemetry.read(file)
    each_s = (samples[-1]["sampler_s"] - samples[0]["sampler_s"]) / (len(samples) - 1)
    return float(each_s / Measure().sample_s / (os.cpu_count() or 1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100, sys.argv[2:])
