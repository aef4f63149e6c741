"""The option `--again` of `dlsuite verify`: some rows of a run are proven and measured again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from suite.cli.options import IfBusy
from suite.engines.options import EngineOptions
from suite.errors import (
    Inconclusive,
    NotVerified,
    ParityFailed,
    ResultsError,
    RunsFailed,
    UsageError,
)
from suite.protocol.plan import Plan, Trial
from suite.report import again
from suite.report.again import Again
from suite.report.summary import TrialSummary, summarise
from suite.results import store
from suite.runner import planfile
from suite.runner.timelimit import TimeLimit

Start = Callable[..., Path]  # does all runs of a new plan: suite.cli.run.start

WORDS = {
    "agrees": "agrees",
    "differs": "differs",
    "inconclusive": "is inconclusive",
}


def measure(folder: Path, number: int, results: Path, start: Start) -> None:
    """Measure `number` randomly chosen rows again by `start`, and print whether they agree.

    The new run is in `results`. Raise NotVerified where a proof or a ratio differs, Inconclusive
    where the runs are too few or too noisy.
    """
    if number < 1:
        raise UsageError(f"--again is {number}; the minimum is 1", hint="--again 2")
    planned, then = planfile.read(folder), summarise(store.read(folder))
    chosen = _chosen(planned.plan.trials, then, number)
    print(f"measuring again: {', '.join(each.configuration for each in chosen)}")
    new = run_again(planned.plan.only(chosen), planned.engine_options, results, start)
    ids = {each.trial_id for each in chosen}
    now = [each for each in summarise(store.read(new)) if _id(each) in ids]
    judge(again.compare(then, now), new, "ratio")


def judge(found: Sequence[Again], new: Path, figure: str) -> None:
    """Print whether each row agrees; `figure` is what is compared: `rate` or `ratio`.

    Raise NotVerified where a row differs, Inconclusive where one cannot be judged.
    """
    for line in _lines(found, figure):
        print(line)
    differing = [
        f"{each.now.record.configuration}: {what}"
        for each in found
        for what, agreement in (("proof", each.proof), (figure, each.figure))
        if agreement == "differs"
    ]
    if differing:
        raise NotVerified(
            f"measured again, it differs: {', '.join(differing)}",
            hint=f"dlsuite report {new}; another machine may have other ratios",
        )
    if any(each.figure == "inconclusive" for each in found):
        raise Inconclusive(
            f"inconclusive: too few or too noisy runs for a bound of {found[0].bound:.0%}",
            hint=f"dlsuite report {new}; a quieter machine",
        )


def run_again(plan: Plan, options: EngineOptions, results: Path, start: Start) -> Path:
    """The folder of a new run. Its rows are compared also where one failed or is not proven."""
    try:
        return start(plan, options, TimeLimit.of(None), results=results, if_busy=IfBusy.wait)
    except (RunsFailed, ParityFailed):
        return (results / "latest").resolve()


def _chosen(trials: Sequence[Trial], measured: Sequence[TrialSummary], number: int) -> list[Trial]:
    """Random trials of one workload that were measured: nobody knows before which."""
    able = {_id(each) for each in measured if each.values}
    by_work: dict[object, list[Trial]] = {}
    for trial in trials:
        if trial.trial_id in able:
            by_work.setdefault(trial.work, []).append(trial)
    if not by_work:
        raise ResultsError("no row of the run was measured", hint="dlsuite report")
    secret = random.SystemRandom()
    enough = [each for each in by_work.values() if len(each) >= number]
    group = secret.choice(enough or [max(by_work.values(), key=len)])
    return secret.sample(group, min(number, len(group)))


def _lines(found: Sequence[Again], figure: str) -> Iterator[str]:
    for each in found:
        name = each.now.record.configuration
        yield f"{name}: the proof {each.proof}"
        if not each.compared:
            continue
        text = f"{name}: the {figure} {WORDS[each.figure]}"
        if each.change:
            change = each.change
            text += (
                f": {change.ratio:.3f} times that of then, {change.low:.3f} to {change.high:.3f}"
            )
        yield text


def _id(trial: TrialSummary) -> str:
    return trial.record.trial_id
