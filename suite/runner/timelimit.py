"""--max-time: the trials that fit into a limit of time, in their order of importance."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

from suite.errors import UsageError
from suite.protocol.plan import Plan, Trial
from suite.runner.costs import Costs
from suite.runner.durations import HINT, parse, shown
from suite.runner.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class TimeLimit:
    """A limit of the duration from `started_s`, on the monotonic clock."""

    text: str | None  # as the user wrote it; None: no limit
    limit_s: float
    started_s: float = 0.0

    @classmethod
    def of(cls, text: str | None) -> TimeLimit:
        """The limit in the text of the option; UsageError where that is no duration."""
        return cls(text=text, limit_s=parse(text) if text else float("inf"))

    def started(self) -> TimeLimit:
        """The limit from now on."""
        return replace(self, started_s=time.monotonic())

    def fitting(self, found: Estimate) -> Plan:
        """The estimated plan with the first of its trials, those that fit.

        Raise UsageError where not even one trial fits.
        """
        plan = found.costs.plan
        if self.text is None:
            return plan
        left_s = self.limit_s - (time.monotonic() - self.started_s)
        left_s -= sum(value for name, value in found.stages_s.items() if name != "parity")
        kept = _first(found.costs, left_s)
        if not kept:
            raise UsageError(
                f"not even one trial fits into {self.text}; the whole plan takes at most "
                f"{shown(found.total_s)}",
                hint=HINT,
            )
        return plan if len(kept) == len(plan.trials) else plan.only(kept)

    def noted(self, plan: Plan, before: Plan) -> Plan:
        """The plan, with a note about the trials of `before` that were left out."""
        if len(plan.trials) == len(before.trials):
            return plan
        return plan.only(plan.trials, _left_out(before, plan, str(self.text)))


def _first(costs: Costs, left_s: float) -> list[Trial]:
    """The trials up to the first one that does not fit, each with its proof."""
    kept = []
    for trial, proof_s in zip(costs.plan.trials, costs.proofs_s(), strict=True):
        left_s -= proof_s + costs.runs_s(trial)
        if left_s < 0:
            break
        kept.append(trial)
    return kept


def _left_out(plan: Plan, kept: Plan, text: str) -> str:
    """The trials that do not fit, counted by model and precision."""
    names = {trial.trial_id for trial in kept.trials}
    counts = Counter(
        f"{trial.workload.model} {trial.workload.precision}"
        for trial in plan.trials
        if trial.trial_id not in names
    )
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    return (
        f"the time limit of {text} left out {counts.total()} of {len(plan.trials)} trials: {listed}"
    )
