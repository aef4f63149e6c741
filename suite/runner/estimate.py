"""The estimated duration and space of a plan, and the trials that fit into a limit of time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.datasets import library
from suite.datasets.formats import synthetic
from suite.engines.base import Engine
from suite.manifests import catalog
from suite.models import MODELS
from suite.parity import workers
from suite.protocol.plan import Plan
from suite.runner import costs
from suite.runner.costs import Costs
from suite.runner.durations import shown

RECORD_BYTES = 60 * 2**10  # of a run: record, events, telemetry, log
VALUE_BYTES = 4
MIN_SHOWN_GIB = 0.05
# Of the largest model, while a run is proven: state, steps and reference.
COPIES = 12
Stages = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a plan takes at most, and the space that it needs."""

    costs: Costs
    stages_s: Stages  # of each stage before the runs
    new_bytes: int  # environments or images, datasets, temporary files
    results_bytes: int

    @property
    def runs_s(self) -> float:
        """All runs, in seconds."""
        return sum(self.costs.runs_s(trial) for trial in self.costs.plan.trials)

    @property
    def total_s(self) -> float:
        """The whole plan, in seconds."""
        return sum(self.stages_s.values()) + self.runs_s

    def __str__(self) -> str:
        plan = self.costs.plan
        parts = {**self.stages_s, "runs": self.runs_s}
        durations = ", ".join(f"{name} {shown(value)}" for name, value in parts.items() if value)
        counts = ", ".join(
            _count(number, name)
            for number, name in (
                (len(plan.workloads), "workload"),
                (len(plan.trials), "trial"),
                (len(plan.runs), "run"),
            )
        )
        budgets = sorted({each.budget_s for each in plan.trials if each.budget_s})
        if budgets:
            counts += f", {_range(budgets)} for each trial"
        space_gib = (self.new_bytes + self.results_bytes) / 2**30
        space = f", {space_gib:.1f} GiB of disk" if space_gib >= MIN_SHOWN_GIB else ""
        return f"{counts}: at most {shown(self.total_s)} ({durations}){space}"


def _range(durations_s: Sequence[float]) -> str:
    """The shortest and the longest of sorted durations."""
    ends = dict.fromkeys((durations_s[0], durations_s[-1]))
    return "at most " + " to ".join(map(shown, ends))


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def estimate(
    plan: Plan,
    engine: Engine,
    proven: frozenset[str] = frozenset(),
    *,
    peak_known: bool = False,
    gpu_flops: Mapping[str, float] | None = None,
) -> Estimate:
    """The estimate for `plan` on `engine`, with what is known to be in the cache.

    `gpu_flops`: as in Costs.
    """
    cores = len(engine.host["cpus"])
    known = Costs(
        plan=plan, cores=cores, proven=proven, peak_known=peak_known, gpu_flops=gpu_flops or {}
    )
    # The reference needs its frameworks even where the plan does not have them.
    used = dict.fromkeys((*plan.frameworks, *workers.FRAMEWORKS))
    missing = [name for name in used if not engine.is_prepared(catalog.framework(name))]
    datasets = {name for name in _datasets(plan) if not library.is_prepared(catalog.dataset(name))}
    return Estimate(
        costs=known,
        stages_s={
            "data": len(datasets) * costs.DATASET_S,
            "environments": len(missing) * costs.ENVIRONMENT_S,
            "parity": sum(known.proofs_s()),
            "peak": known.peak_s(),
        },
        new_bytes=sum(
            (_environment_bytes(plan, missing), _data_bytes(plan, datasets), _model_bytes(plan))
        ),
        results_bytes=len(plan.runs) * RECORD_BYTES,
    )


def _datasets(plan: Plan) -> set[str]:
    return {each.dataset for each in plan.workloads} - {synthetic.NAME}


def _environment_bytes(plan: Plan, missing: list[str]) -> int:
    kind = plan.trials[0].devices.kind
    sizes = (catalog.framework(name).disk_mib for name in missing)
    return sum(getattr(size, kind, None) or 0 for size in sizes) * 2**20


def _data_bytes(plan: Plan, missing: set[str]) -> int:
    """Prepared datasets, and synthetic ones for each shape."""
    found = [library.describe(catalog.dataset(name)) for name in missing]
    found += [library.of(each) for each in plan.workloads if each.dataset == synthetic.NAME]
    sizes = {
        (each.name, each.shape, each.classes, each.samples["train"]): math.prod(each.shape)
        * sum(each.samples.values())
        for each in found
    }
    return sum(sizes.values())


def _model_bytes(plan: Plan) -> int:
    """Initial weights of every workload, and the copies of the largest model in its proof."""
    sizes = [MODELS[each.model]().parameter_count * VALUE_BYTES for each in plan.workloads]
    return sum(sizes) + COPIES * max(sizes)
