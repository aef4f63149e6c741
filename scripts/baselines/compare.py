"""Time the suite's modules beside hand-written scripts, in turns, and print the ratios.

Both run as processes of their own that take turns of about a second each, so that whatever slows
the machine slows both. The suite's turn is cut into blocks as short as the suite's own. One process
differs from the next, so there are several pairs of them; of each the median over its turns counts.

Usage: .venv/bin/python scripts/baselines/compare.py [PAIRS [TURNS [SCRIPT
    [FRAMEWORK[:VARIANT] ...]]]]
SCRIPT is lenet, resnet50, or resnet50_zoo: the framework's own published code of that model.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from contenders import BLOCK_S, HERE, Contender, Start, in_turns, report, starts

TURN_S = 1.0


def main(pairs: int, turns: int, script: str, only: list[str]) -> None:
    for start in starts(script.removesuffix("_zoo"), only):
        found = [statistics.median(ratios(start, script, turns)) for _ in range(pairs)]
        report(f"{start.trial.configuration}, suite / {script}", found)


def ratios(start: Start, script: str, turns: int) -> list[float]:
    """The suite's speed over the script's in one pair of processes, for each pair of turns."""
    trial, work = start.trial, start.trial.workload
    path = HERE / f"{script}_{trial.framework}.py"
    numbers = [str(work.batch_size), str(work.optimizer.learning_rate)]
    command: list[str | Path] = [start.python, path, start.data, trial.variant, *numbers]
    ours, theirs = start.suite(), Contender(command, start.environment)
    for contender in (ours, theirs):
        contender.steps(1)
    step_s = theirs.step_s()
    block = max(1, round(BLOCK_S / step_s))
    found = in_turns(
        lambda blocks: sum(ours.steps(block) for _ in range(blocks)),
        lambda blocks: theirs.steps(blocks * block),
        max(1, round(TURN_S / (block * step_s))),
        turns,
    )
    ours.end()
    theirs.end()
    return found


if __name__ == "__main__":
    given = sys.argv[1:4]
    pairs, turns, script = (*given, *("5", "10", "lenet")[len(given) :])
    main(int(pairs), int(turns), script, sys.argv[4:])
