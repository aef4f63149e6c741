"""Compare the speed of the suite's modules with that of hand-written scripts.

Both run as processes of their own and alternate in slices of about a second, so that a slow phase
of the machine slows both. The suite's slice consists of blocks as short as those of a timed run.
One process differs from the next, so there are several pairs of them; the median over its slices
counts for each pair.

Usage: .venv/bin/python scripts/baselines/compare.py [PAIRS [SLICES [SCRIPT
    [FRAMEWORK[:VARIANT] ...]]]]
SCRIPT is lenet, gpt_mini, vit_tiny, resnet50, or resnet50_zoo, the published code of that model for
the framework; of PyTorch also mobilenet_v2_zoo and efficientnet_b0_zoo, beside the imported
mobilenet_v2.model.json or efficientnet_b0.model.json in the current folder, and in the same way
gru_zoo, group_norm_zoo and swin_t_zoo.
`lenet/bf16_mixed` compares in that precision, which the scripts of PyTorch and JAX
have, and LeNet of TensorFlow and Keras. `lenet/infer` compares the median latency of one image: the
script's over the suite's.
`lenet/cuda` and `lenet/bf16_mixed/cuda` compare on a GPU, with batches that lie there. The scripts
for that are lenet, resnet50 and vit_tiny of PyTorch, and lenet and resnet50 of JAX.
`lenet/accumulated` accumulates the gradients of micro-batches and averages the weights; PyTorch,
TensorFlow and JAX have that script.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from contenders import BLOCK_S, HERE, Contender, Start, alternate, report, starts

SLICE_S = 1.0
WORDS = ("bf16_mixed", "infer", "cuda", "accumulated")  # after the script


def main(pairs: int, slices: int, script: str, only: list[str]) -> None:
    script, *named = script.split("/")
    if unknown := [word for word in named if word not in WORDS]:
        raise SystemExit(f"unknown: {unknown[0]}; known: {', '.join(WORDS)}")
    infer = "infer" in named
    precision = "bf16_mixed" if "bf16_mixed" in named else "float32"
    device = "cuda" if "cuda" in named else "cpu"
    model = script.removesuffix("_zoo")
    accumulated = "accumulated" in named
    script += "_accumulated" if accumulated else ""
    for start in starts(
        model, only, precision, infer=infer, device=device, accumulated=accumulated
    ):
        found = [statistics.median(ratios(start, script, slices)) for _ in range(pairs)]
        compared = f"p50 of {script} / suite" if infer else f"{precision}, suite / {script}"
        report(f"{start.trial.configuration}, {compared}", found)


def ratios(start: Start, script: str, slices: int) -> list[float]:
    """The suite's speed over the script's in one pair of processes, for each pair of slices."""
    trial, workload = start.trial, start.trial.workload
    infer = workload.mode == "infer"
    path = HERE / f"{'inference' if infer else script}_{trial.framework}.py"
    rate = workload.optimizer.learning_rate if workload.optimizer else 0
    numbers = [str(workload.batch_size), str(rate), workload.precision]
    command: list[str | Path] = [start.python, path, start.data, trial.variant, *numbers]
    command += [script] if infer else []
    # A worker does not get the user's PYTHONPATH, which has torchvision for a published model.
    paths = [start.environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
    environment = {**start.environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ours, theirs = start.suite(), Contender(command, environment)
    for contender in (ours, theirs):
        contender.steps(1)
    step_s = theirs.step_s()
    if start.trial.device != "cpu":
        print(f"  {path.name}: {workload.batch_size / step_s:,.0f} samples/s", flush=True)
    block = max(1, round(BLOCK_S / step_s))
    found = alternate(
        in_blocks(ours, block),
        in_blocks(theirs, block) if infer else lambda blocks: theirs.steps(blocks * block),
        max(1, round(SLICE_S / (block * step_s))),
        slices,
    )
    ours.end()
    theirs.end()
    return found


def in_blocks(contender: Contender, block: int) -> Callable[[int], float]:
    """A slice of a number of blocks, each with `block` steps; it returns seconds."""
    return lambda blocks: sum(contender.steps(block) for _ in range(blocks))


if __name__ == "__main__":
    arguments = sys.argv[1:4]
    pairs, slices, script = (*arguments, *("5", "10", "lenet")[len(arguments) :])
    main(int(pairs), int(slices), script, sys.argv[4:])
