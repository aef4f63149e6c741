"""Time the suite's modules beside hand-written scripts, in turns, and print the ratios.

Both run as processes of their own that take turns of about a second each, so that whatever slows
the machine slows both. The suite's turn is cut into blocks as short as the suite's own.

Usage: .venv/bin/python scripts/baselines/compare.py [TURNS [SCRIPT [FRAMEWORK[:VARIANT] ...]]]
SCRIPT is lenet, resnet50, or resnet50_zoo: the framework's own published code of that model.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contenders import BLOCK_S, HERE, Contender, Start, in_turns, report, starts

BLOCKS = 4  # of the suite in one turn


def main(turns: int, script: str, only: list[str]) -> None:
    for start in starts(script.removesuffix("_zoo"), only):
        report(f"{start.trial.means}, suite / {script}", ratios(start, script, turns))


def ratios(start: Start, script: str, turns: int) -> list[float]:
    """The suite's speed over the script's, for each pair of turns."""
    trial, work = start.trial, start.trial.workload
    path = HERE / f"{script}_{trial.framework}.py"
    numbers = [str(work.batch_size), str(work.optimizer.learning_rate)]
    command: list[str | Path] = [start.python, path, start.data, trial.variant, *numbers]
    ours, theirs = start.suite(), Contender(command, start.environment)
    for contender in (ours, theirs):
        contender.steps(1)
    step_s = theirs.step_s()
    block = max(1, round(BLOCK_S / step_s))
    count = max(1, round(BLOCKS * BLOCK_S / (block * step_s)))
    found = in_turns(
        lambda: sum(ours.steps(block) for _ in range(count)),
        lambda: theirs.steps(count * block),
        turns,
    )
    ours.end()
    theirs.end()
    return found


if __name__ == "__main__":
    turns, script = (*sys.argv[1:3], *("40", "lenet")[len(sys.argv[1:3]) :])
    main(int(turns), script, sys.argv[3:])
