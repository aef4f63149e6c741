"""Whether the trials of a plan run interleaved, where its suite leaves it to the machine."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from suite.datasets import library
from suite.datasets.inputs import FLOAT32_BYTES
from suite.manifests.workloads import Workload
from suite.protocol.plan import Plan, Trial
from suite.worker import host

# Fewer rounds cannot show a difference (docs/explanation/statistics.md).
ROUNDS = 6
WORKER_BYTES = 2**30  # the memory of a worker beside its data


def alternating(plan: Plan, memory_bytes: int | None = None) -> Plan:
    """The plan, interleaved where that suits its trials and fits into the machine's memory.

    Trials that cannot alternate run one after the other without a remark; a note says where only
    the memory is too small. `memory_bytes` None: that of this machine.
    """
    groups = Counter(trial.work for trial in plan.trials)
    several = bool(groups) and min(groups.values()) > 1
    if not several or plan.repeats.at_least < ROUNDS or not all(map(_can, plan.trials)):
        return plan
    available = memory_bytes or host.describe()["memory_bytes"]
    needed = max(count * _worker_bytes(work[0]) for work, count in groups.items())
    if available and needed > available:
        note = (
            f"not interleaved: {max(groups.values())} workers at once need about"
            f" {needed / 2**30:.0f} GiB, this machine has {available / 2**30:.1f} GiB"
        )
        return plan.only(plan.trials, note)
    return replace(plan, interleave=True)


def _can(trial: Trial) -> bool:
    """Whether a trial can alternate with others on this machine's CPU."""
    devices, workload = trial.devices, trial.workload
    return devices.kind == "cpu" and devices.ranks == 1 and workload.input != "loader"


def _worker_bytes(workload: Workload) -> int:
    """The memory of one worker."""
    if workload.input != "host":
        return WORKER_BYTES
    dataset = library.describe(library.of(workload))
    samples = workload.query_samples or sum(dataset.samples.values())
    return WORKER_BYTES + samples * math.prod(dataset.shape) * FLOAT32_BYTES
