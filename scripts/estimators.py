"""Compares estimates of a run's rate from its blocks, over the runs of one or more folders.

    scripts/estimators.py RESULTS/RUN ...

For each trial and estimate: the median over runs relative to that of all timed blocks (bias), and
the standard deviation over runs relative to their median (efficiency).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, stdev

from suite.results import store
from suite.results.blocks import Block
from suite.results.record import Record

Estimate = Callable[[Sequence[Block]], float]
TRIMMED = 0.2  # share of the blocks on each side


def ratio_of_sums(blocks: Sequence[Block]) -> float:
    return sum(each.steps for each in blocks) / sum(each.duration_s for each in blocks)


def median_rate(blocks: Sequence[Block]) -> float:
    return median(each.steps / each.duration_s for each in blocks)


def trimmed_mean(blocks: Sequence[Block]) -> float:
    ordered = sorted(blocks, key=lambda each: each.steps / each.duration_s)
    cut = int(len(ordered) * TRIMMED)
    return ratio_of_sums(ordered[cut : len(ordered) - cut])


ESTIMATES: dict[str, Estimate] = {
    "ratio of sums": ratio_of_sums,
    "median": median_rate,
    "trimmed mean": trimmed_mean,
}


def report(name: str, runs: Sequence[Record]) -> None:
    """Print one line for each estimate, of all timed blocks and of the undisturbed ones."""
    timed = [[each for each in run.blocks.rows() if not each.warmup] for run in runs]
    counted = [run.counted_blocks for run in runs]
    left_out = sum(map(len, timed)) - sum(map(len, counted))
    print(f"{name}: {len(runs)} runs, {left_out} of {sum(map(len, timed))} blocks left out")
    reference = median(map(ratio_of_sums, timed))
    for kind, groups in {"all": timed, "undisturbed": counted}.items():
        for title, estimate in ESTIMATES.items():
            values = [estimate(blocks) for blocks in groups]
            spread = stdev(values) / median(values)
            print(f"  {kind:12} {title:14} {median(values) / reference:7.4f} {spread:7.2%}")


def main(folders: Sequence[str]) -> None:
    trials: dict[str, list[Record]] = {}
    for folder in folders:
        for record in store.read(Path(folder)):
            if record.status == "ok" and record.blocks.warmup:
                trials.setdefault(record.configuration, []).append(record)
    for name, runs in trials.items():
        if len(runs) > 1:
            report(name, runs)


if __name__ == "__main__":
    main(sys.argv[1:])
