"""The learning rate of each step as a share of the optimizer's own.

docs/reference/optimizers.md has the formulas.
"""

from __future__ import annotations

import math
from typing import Any


def share(schedule: dict[str, Any], before: Any, ops: Any) -> Any:
    """The share of the learning rate in the step after `before` others.

    `ops` has the functions minimum, maximum, cos and floor of numpy, for values such as `before`:
    a number, or a scalar in the graph of a framework, of a floating type.
    """
    warmup, total = schedule["warmup_steps"], schedule["total_steps"]
    risen = ops.minimum((before + 1) / warmup, 1.0) if warmup else 1.0
    after = ops.maximum(before - warmup, 0.0)
    if schedule["shape"] == "steps":
        return risen * schedule["gamma"] ** ops.floor(after / schedule["step_size"])
    if schedule["shape"] == "constant":
        return risen
    done = ops.minimum(after / (total - warmup), 1.0)
    left = 1 - done if schedule["shape"] == "linear" else (1 + ops.cos(math.pi * done)) / 2
    return risen * (schedule["final_share"] + (1 - schedule["final_share"]) * left)
