"""How often `dlsuite compare` finds a difference where there is none, or misses a planted one.

Each comparison has rounds of three fresh processes of LeNet that take turns: the worker, the worker
again, and a copy of it whose blocks take SHARE longer.
Each round is a JSON line in RATIOS: the first worker's samples per second, and each other's rate
over the first's, as `dlsuite compare` has it. The same command goes on where it ended.

Usage: .venv/bin/python scripts/false_alarms.py RATIOS.jsonl [FRAMEWORK [COMPARISONS [ROUNDS
    [SHARE]]]]
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from suite.datasets import inputs
from suite.datasets.inputs import Inputs
from suite.engines import sessions
from suite.engines.attempt import attempt
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.paths import WORKER
from suite.protocol import trial_file
from suite.protocol.plan import Trial, expand
from suite.protocol.trial_file import Turns
from suite.results.record import series
from suite.results.stats import compare_rounds, ratio_in_turns
from suite.runner import recording
from suite.runner.selftest import Fault

SIDES = ("first", "same", "slowed")
LEAST = 6  # rounds: fewer show nothing
# Short turns: the machine has changed less when the other side has its own. Both sides are of one
# framework; of different ones it would tell what it costs each to stop after every step. The runs
# are short: two hundred rounds of three processes take three hours.
MEASURE = Measure(block_s=0.1, turn_s=0.1, min_measure_s=8, max_measure_s=8)


def slowed(share: float) -> Fault:
    """The worker's block, `share` longer: it waits, which costs what it takes in a framework that
    has nothing left to do at the end of a block (MXNet still tidies up then)."""
    return Fault(
        name=f"{share:.1%} slower",
        framework="any",
        file="loop.py",
        right="        duration_s = (time.perf_counter_ns() - started) / 1e9\n        self.step",
        wrong=f"""\
        until = started + (time.perf_counter_ns() - started) * {1 + share}
        while time.perf_counter_ns() < until:
            pass
        duration_s = (time.perf_counter_ns() - started) / 1e9
        self.step""",
    )


def collect(ratios: Path, framework: str, comparisons: int, rounds: int, share: float) -> None:
    """Do the rounds that have no line in `ratios` yet."""
    done = {(each["comparison"], each["round"]) for each in read(ratios)}
    wanted = itertools.product(range(comparisons), range(rounds))
    lacking = [each for each in wanted if each not in done]
    if not lacking:
        return
    (trial,) = expand(
        catalog.suite("quick"), catalog.frameworks(), catalog.tracks(), only=[framework]
    ).trials
    with sessions.turn("wait", print), sessions.owning(sessions.new_id()) as work:
        given = inputs.obtain(trial.workload, seed=1, place=work / "inputs", notify=print)
        turns = trial_file.make_turns(work / "turns", len(SIDES))
        workers = dict.fromkeys(SIDES, WORKER) | {"slowed": slowed(share).plant(work / "slowed")}
        engines = {side: VenvEngine(worker) for side, worker in workers.items()}
        for comparison, number in lacking:
            order = random.Random(f"{comparison} {number}").sample(SIDES, len(SIDES))
            with ThreadPoolExecutor(len(SIDES)) as pool:
                runs = {
                    side: pool.submit(one_run, engines[side], trial, given, turns, work)
                    for side in order
                }
            line: dict[str, Any] = {"comparison": comparison, "round": number}
            line |= beside_the_first({side: run.result() for side, run in runs.items()})
            with ratios.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def one_run(
    engine: VenvEngine, trial: Trial, given: Inputs, turns: Turns, work: Path
) -> dict[str, Any]:
    """The figures of one fresh process; RuntimeError where it ends otherwise than well."""
    prepared = engine.prepare(catalog.framework(trial.framework), print)
    with tempfile.TemporaryDirectory(dir=work) as place:
        folder = Path(place) / "run"
        trial_file.write(
            folder,
            trial,
            given,
            mode="train",
            measure=MEASURE,
            cpus=engine.host["cpus"],
            turns=turns,
        )
        done = attempt(
            engine,
            prepared,
            folder,
            name="run",
            log=Path(place) / "log",
            deadline_s=600,
            on_event=lambda event: None,
        )
    figures = recording.measured(done, trial.workload.batch_size)
    if done.error or not figures["samples_per_s"]:
        raise RuntimeError(f"the run did not end well: {done.error}")
    return figures


def beside_the_first(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Samples per second of the first side, and what each other is of it."""
    blocks = {side: series(run["blocks"]) for side, run in runs.items()}
    others = [side for side in runs if side != "first"]
    beside = {side: ratio_in_turns(blocks["first"], blocks[side]) for side in others}
    return {"first": runs["first"]["samples_per_s"], **beside}


def report(ratios: Path, rounds: int) -> None:
    """Print how many of the complete comparisons showed a difference, by the rounds used."""
    found: dict[int, list[dict[str, float]]] = {}
    for line in read(ratios):
        found.setdefault(line["comparison"], []).append(line)
    whole = [each for each in found.values() if len(each) >= rounds]
    for used in range(LEAST, rounds + 1):
        alike = [compare_rounds(column(each[:used], "same")) for each in whole]
        slow = [compare_rounds(column(each[:used], "slowed")) for each in whole]
        false = sum(each.verdict in ("faster", "slower") for each in alike)
        caught = sum(each.verdict == "slower" for each in slow)
        ratio = statistics.median(each.ratio for each in slow)
        print(
            f"{used:2} rounds: different from itself {false} of {len(whole)};"
            f" slowed: found {caught} of {len(whole)}, median ratio {ratio:.3f}"
        )
    rounds_done = [line for each in found.values() for line in each]
    if len(rounds_done) < 2:
        return
    rates = column(rounds_done, "first")
    print(
        f"standard deviation over {len(rates)} rounds: of one rate"
        f" {statistics.stdev(rates) / statistics.fmean(rates):.2%},"
        f" of the ratio of two {statistics.stdev(column(rounds_done, 'same')):.2%}"
    )


def column(rounds: list[dict[str, float]], side: str) -> list[float]:
    return [each[side] for each in rounds]


def read(ratios: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ratios.read_text().splitlines()] if ratios.exists() else []


def main(
    ratios: str,
    framework: str = "pytorch",
    comparisons: str = "20",
    rounds: str = "10",
    share: str = "0.03",
) -> None:
    collect(Path(ratios), framework, int(comparisons), int(rounds), float(share))
    report(Path(ratios), int(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
