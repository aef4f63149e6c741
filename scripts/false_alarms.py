"""How often `dlsuite compare` finds a difference where there is none, or misses a planted one.

Each comparison has rounds of three fresh interleaved processes of LeNet: the worker, the worker
again, and a copy of it whose blocks take longer by SHARE. Each round is a JSON line in RATIOS: the
samples per second of the first worker, and the rate of each other over the first, as `dlsuite
compare` computes it. After an interruption the same command continues.

With MODE `infer` the processes answer single images, each call of the copy takes longer by SHARE,
and the median latency takes the place of the rate.

Usage: .venv/bin/python scripts/false_alarms.py RATIOS.jsonl [FRAMEWORK [COMPARISONS [ROUNDS
    [SHARE [MODE]]]]]
With a complete file, such as docs/measurements/false_alarms_pytorch.jsonl, it only evaluates.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from suite.datasets import obtain
from suite.datasets.inputs import Inputs
from suite.engines import sessions
from suite.engines.attempt import run_task
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.paths import WORKER
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Interleaving, Task
from suite.results.blocks import counted, rates_over_time
from suite.results.stats import Difference, compare_rounds, interleaved_ratio
from suite.runner import recording
from suite.runner.selftest.faults import Fault

Mode = Literal["train", "infer"]

SUITES: dict[Mode, str] = {"train": "quick", "infer": "inference"}
FIGURES: dict[Mode, str] = {"train": "rate", "infer": "p50"}
SIDES = ("first", "same", "slowed")
LEAST = 6  # rounds: with fewer the test shows no difference
# Short blocks, so that the machine changes little between the blocks of the two sides. Both sides
# are of one framework: between two frameworks the cost of stopping after each block would count.
# The runs are short: two hundred rounds of three processes take three hours.
MEASURE = Measure(
    block_s=0.1,
    interleaved_block_s=0.1,
    min_measure_s=8,
    max_measure_s=8,
    min_query_s=4,
    max_query_s=4,
)


def slowed(share: float, mode: Mode) -> Fault:
    """A worker that is slower by `share`."""
    return slowed_training(share) if mode == "train" else slowed_inference(share)


def slowed_inference(share: float) -> Fault:
    """A worker whose calls of the model with one image end later by `share`."""
    return Fault(
        name=f"{share:.1%} slower",
        framework="any",
        file="inference.py",
        right="self._respond([sample], self._predict(self._singles[sample.index]))",
        wrong=f"""\
started = time.perf_counter_ns()
                    logits = self._predict(self._singles[sample.index])
                    until = started + (time.perf_counter_ns() - started) * {1 + share}
                    while time.perf_counter_ns() < until:
                        pass
                    self._respond([sample], logits)""",
    )


def slowed_training(share: float) -> Fault:
    """A worker whose blocks end later by `share`.

    It waits at the end of a block, where most frameworks have no work left (MXNet still frees
    memory then).
    """
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


def collect(
    ratios: Path, framework: str, comparisons: int, rounds: int, share: float, mode: Mode
) -> None:
    """Do the rounds that have no line in `ratios` yet."""
    done = {(each["comparison"], each["round"]) for each in read(ratios)}
    planned = itertools.product(range(comparisons), range(rounds))
    missing = [each for each in planned if each not in done]
    if not missing:
        return
    suite = catalog.suite(SUITES[mode])
    trial = expand(suite, catalog.frameworks(), catalog.tracks(), only=[framework]).trials[0]
    with sessions.measuring("wait", print), sessions.session(sessions.new_id()) as work_dir:
        its_inputs = obtain.obtain(trial.workload, seed=1, folder=work_dir / "inputs", notify=print)
        interleaving = trial_file.make_interleaving(work_dir / "interleaving", len(SIDES))
        workers = dict.fromkeys(SIDES, WORKER)
        workers["slowed"] = slowed(share, mode).plant(work_dir / "slowed")
        engines = {side: VenvEngine(worker) for side, worker in workers.items()}
        for comparison, number in missing:
            order = random.Random(f"{comparison} {number}").sample(SIDES, len(SIDES))
            with ThreadPoolExecutor(len(SIDES)) as pool:
                runs = {
                    side: pool.submit(
                        one_run, engines[side], trial, its_inputs, interleaving, work_dir, MEASURE
                    )
                    for side in order
                }
            line: dict[str, Any] = {"comparison": comparison, "round": number}
            line |= relative_to_first({side: run.result() for side, run in runs.items()})
            with ratios.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def one_run(
    engine: VenvEngine,
    trial: Trial,
    its_inputs: Inputs,
    interleaving: Interleaving,
    work_dir: Path,
    measure: Measure,
) -> dict[str, Any]:
    """The figures of one fresh process; RuntimeError where it fails."""
    prepared = engine.prepare(catalog.framework(trial.framework), print)
    task = Task(
        trial=trial,
        inputs=its_inputs,
        mode="infer" if trial.workload.scenario else "train",
        measure=measure,
        interleaving=interleaving,
    )
    with tempfile.TemporaryDirectory(dir=work_dir) as folder:
        attempt = run_task(
            engine,
            prepared,
            task,
            Path(folder) / "run",
            name="run",
            log=Path(folder) / "log",
            deadline_s=600,
        )
    figures = recording.measured(attempt, trial.workload.batch_size, measure.min_measure_s)
    if attempt.error or not (figures["samples_per_s"] or figures["inference"]):
        raise RuntimeError(f"the run failed: {attempt.error}")
    return figures


def relative_to_first(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The rate, or the p50 latency in seconds, of the first side; each other's ratio to it."""
    if inferences := {side: run["inference"] for side, run in runs.items() if run["inference"]}:
        p50_s = {side: each.percentiles_s["50"] for side, each in inferences.items()}
        return {side: p50_s[side] / (p50_s["first"] if side != "first" else 1) for side in p50_s}
    blocks = {
        side: rates_over_time(counted(run["blocks"].rows(), MEASURE.min_measure_s))
        for side, run in runs.items()
    }
    others = [side for side in runs if side != "first"]
    ratios = {side: interleaved_ratio(blocks["first"], blocks[side]) for side in others}
    return {"first": runs["first"]["samples_per_s"], **ratios}


def report(ratios: Path, rounds: int, mode: Mode) -> None:
    """Print how many of the complete comparisons showed a difference, by the rounds used."""
    found: dict[int, list[dict[str, float]]] = {}
    for line in read(ratios):
        found.setdefault(line["comparison"], []).append(line)
    complete = [each for each in found.values() if len(each) >= rounds]
    for used in range(LEAST, rounds + 1):
        same = [compared(each[:used], "same", mode) for each in complete]
        slower = [compared(each[:used], "slowed", mode) for each in complete]
        false = sum(each.verdict in ("faster", "slower") for each in same)
        caught = sum(each.verdict == "slower" for each in slower)
        ratio = statistics.median(each.ratio for each in slower)
        print(
            f"{used:2} rounds: different from itself {false} of {len(complete)};"
            f" slowed: found {caught} of {len(complete)}, median ratio {ratio:.3f}"
        )
    rounds_done = [line for each in found.values() for line in each]
    if len(rounds_done) < 2:
        return
    rates = column(rounds_done, "first")
    print(
        f"standard deviation over {len(rates)} rounds: of one {FIGURES[mode]}"
        f" {statistics.stdev(rates) / statistics.fmean(rates):.2%},"
        f" of the ratio of two {statistics.stdev(column(rounds_done, 'same')):.2%}"
    )


def compared(rounds: list[dict[str, float]], side: str, mode: Mode) -> Difference:
    return replace(compare_rounds(column(rounds, side)), lower_is_better=mode == "infer")


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
    mode: Mode = "train",
) -> None:
    collect(Path(ratios), framework, int(comparisons), int(rounds), float(share), mode)
    report(Path(ratios), int(rounds), mode)


if __name__ == "__main__":
    main(*sys.argv[1:])
