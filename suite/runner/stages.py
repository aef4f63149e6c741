"""The stages of a staged plan: the trials of one workload on one device set, and their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from suite.manifests.devices import KINDS
from suite.protocol.plan import Plan, Trial
from suite.runner.durations import parse


def of(plan: Plan, first: Trial) -> Plan:
    """The plan of the trials that have the work and the devices of `first`."""
    same = (first.work, first.device)
    return plan.only([each for each in plan.trials if (each.work, each.device) == same])


def time_left(plan: Plan) -> Callable[[], bool]:
    """A function that says whether another stage may start; the time begins with this call."""
    limit_s = parse(plan.max_time) if plan.max_time else float("inf")
    until_s = time.monotonic() + limit_s
    return lambda: time.monotonic() < until_s


def on_devices(plan: Plan, host: dict[str, Any]) -> Plan:
    """The plan without trials on more devices than the machine has, and a note about them.

    Each rank needs a core too.
    """
    available = {kind: len(host.get(each.facts) or []) for kind, each in KINDS.items()}
    most = {kind: min(count, available["cpu"]) for kind, count in available.items()}
    kept = [each for each in plan.trials if each.devices.per_node <= most[each.devices.kind]]
    left_out = {each.device for each in plan.trials if each not in kept}
    if not left_out:
        return plan
    counted = ", ".join(f"{count} {kind}" for kind, count in available.items() if count)
    return plan.only(kept, f"left out: {', '.join(sorted(left_out))}; this machine has {counted}")
