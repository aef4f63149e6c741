"""How many pairs of equal rows a run calls different, for docs/measurements/disturbances.md.

    scripts/equal_pairs.py RATIOS.jsonl [FRAMEWORK [PROCESSES]]

As many rounds as the suite `quick` has, each of PROCESSES fresh interleaved processes, all of the
same work and measured as there. A round is a JSON line in RATIOS: the ratio of the rates of each
pair, in the order of itertools.combinations. After an interruption the same command continues;
without a framework it only evaluates the file. The pairs of one file share processes, so they are
not independent.
"""

from __future__ import annotations

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

from false_alarms import one_run, read

from suite.datasets import obtain
from suite.engines import sessions
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.results.blocks import counted, rates_over_time
from suite.results.stats import compare_rounds, interleaved_ratio

SUITE = catalog.suite("quick")
ROUNDS = SUITE.repeats.at_least


def collect(ratios: Path, framework: str, processes: int) -> None:
    """Do the rounds that have no line in `ratios` yet."""
    trial = expand(SUITE, catalog.frameworks(), catalog.tracks(), only=[framework]).trials[0]
    with sessions.measuring("wait", print), sessions.session(sessions.new_id()) as work_dir:
        inputs = obtain.obtain(trial.workload, seed=1, folder=work_dir / "inputs", notify=print)
        interleaving = trial_file.make_interleaving(work_dir / "interleaving", processes)
        engine = VenvEngine()
        for number in range(len(read(ratios)), ROUNDS):
            order = random.Random(number).sample(range(processes), processes)
            with ThreadPoolExecutor(processes) as pool:
                started = {
                    each: pool.submit(
                        one_run, engine, trial, inputs, interleaving, work_dir, SUITE.measure
                    )
                    for each in order
                }
            least_s = SUITE.measure.min_measure_s
            blocks = [
                rates_over_time(counted(started[each].result()["blocks"].rows(), least_s))
                for each in range(processes)
            ]
            line = [interleaved_ratio(one, other) for one, other in combinations(blocks, 2)]
            with ratios.open("a", encoding="utf-8") as file:
                file.write(json.dumps([None if each is None else round(each, 5) for each in line]))
                file.write("\n")


def report(ratios: Path) -> None:
    """Print how many pairs are called different."""
    pairs = [compare_rounds(each) for each in zip(*read(ratios), strict=True) if None not in each]
    different = sum(each.verdict in ("faster", "slower") for each in pairs)
    print(f"{ratios.name}: {different} of {len(pairs)} pairs of equal rows are called different")


def main(ratios: str, framework: str | None = None, processes: str = "15") -> None:
    if framework:
        collect(Path(ratios), framework, int(processes))
    report(Path(ratios))


if __name__ == "__main__":
    main(*sys.argv[1:])
