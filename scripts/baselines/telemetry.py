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

from contenders import Start, in_turns, report, starts

from suite.manifest import Measure

TURN_S = 4 * Measure().sample_s


def main(turns: int, only: list[str]) -> None:
    for start in starts("lenet", only):
        report(f"{start.trial.means}, with telemetry / without", ratios(start, turns))


def ratios(start: Start, turns: int) -> list[float]:
    """The speed with a sampler over that without, for each pair of turns."""
    worker = start.suite()
    worker.steps(1)
    steps = max(1, round(TURN_S / worker.step_s()))
    module = [start.python, "-m", "suite.worker.telemetry", start.folder / "samples"]
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


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 60, sys.argv[2:])
