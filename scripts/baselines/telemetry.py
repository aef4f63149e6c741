"""The cost of the telemetry: the speed of the suite's step with a running and a halted sampler.

One process does all steps, and one sampler is halted in every other slice: two processes would
differ by more than the cost of the sampler.

Usage: .venv/bin/python scripts/baselines/telemetry.py [SLICES [FRAMEWORK ...]]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from contenders import Start, alternate, report, starts

from suite.manifests.workloads import Measure
from suite.results.logs import samples_of
from suite.worker.telemetry import FILE

SLICE_S = 2 * Measure().sample_s


def main(slices: int, only: list[str]) -> None:
    for start in starts("lenet", only):
        report(f"{start.trial.configuration}, with telemetry / without", ratios(start, slices))
        print(f"  the sampler itself took {own_share(start.folder / FILE):.2%} of the cores")


def ratios(start: Start, slices: int) -> list[float]:
    """The speed with a sampler over the speed without one, for each pair of slices."""
    worker = start.suite()
    worker.steps(1)
    steps = max(1, round(SLICE_S / worker.step_s()))
    module = [start.python, "-m", "suite.worker.telemetry", start.folder / FILE]
    numbers = [str(worker.pid), str(Measure().sample_s), "0"]
    sampler = subprocess.Popen(
        [*module, *numbers],
        env=start.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )

    def with_sampler(steps: int) -> float:
        os.kill(sampler.pid, signal.SIGCONT)
        duration_s = worker.steps(steps)
        os.kill(sampler.pid, signal.SIGSTOP)
        return duration_s

    found = alternate(with_sampler, worker.steps, steps, slices)
    os.kill(sampler.pid, signal.SIGCONT)
    worker.end()
    sampler.communicate()
    return found


def own_share(file: Path) -> float:
    """The sampler's share of the processor time of all cores."""
    samples = samples_of(file)
    each_s = (samples[-1]["sampler_s"] - samples[0]["sampler_s"]) / (len(samples) - 1)
    return float(each_s / Measure().sample_s / (os.cpu_count() or 1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100, sys.argv[2:])
