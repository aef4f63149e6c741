"""The remaining time of a plan's runs, by the durations of the finished ones."""

from __future__ import annotations

from collections.abc import Iterable

from suite.protocol.plan import Trial
from suite.results.record import Record
from suite.runner.costs import Costs
from suite.runner.stopping import Finished, duration_s, repeats_of, stop_reason


class Remaining:
    """Estimates the remaining time: `costs` for what has not run, corrected by what has."""

    def __init__(self, costs: Costs, finished: Iterable[Record] = ()) -> None:
        self._finished = Finished(finished)
        self.estimated(costs)

    def estimated(self, costs: Costs) -> None:
        """The costs are known better than before."""
        self.costs = costs
        self._planned_s = {trial.trial_id: costs.runs_s(trial) for trial in costs.plan.trials}

    def done(self, record: Record) -> None:
        """A run has finished."""
        self._finished.add([record])

    def runs_s(self) -> float:
        """The remaining time of all runs, in seconds."""
        left_s = {trial.trial_id: self._left_s(trial) for trial in self.costs.plan.trials}
        started = {name: value for name, value in left_s.items() if value is not None}
        known_s = sum(started.values())
        planned_s = sum(self._planned_s[name] for name in started)
        waiting_s = sum(self._planned_s.values()) - planned_s
        actual_s = known_s + sum(map(self._spent_s, started))
        return known_s + waiting_s * (actual_s / planned_s if planned_s else 1.0)

    def _left_s(self, trial: Trial) -> float | None:
        """The remaining time of a trial by its finished runs; None where it has none."""
        runs = self._finished.by_trial.get(trial.trial_id)
        if not runs:
            return None
        repeats = repeats_of(self.costs.plan, trial)
        if stop_reason(runs, repeats, spent_s=self._finished.spent_s):
            return 0.0
        spent_s = self._spent_s(trial.trial_id)
        total_s = spent_s / len(runs) * repeats.at_most
        return max(0.0, min(total_s, trial.budget_s or total_s) - spent_s)

    def _spent_s(self, trial_id: str) -> float:
        return sum(map(duration_s, self._finished.by_trial.get(trial_id, ())))
