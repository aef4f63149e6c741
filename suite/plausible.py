"""What cannot be: a run whose figures contradict each other or the device's limit. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from suite.limit import Limit, share
from suite.models import MODELS
from suite.models.layers import Conv2d
from suite.records import Error, Record
from suite.worker.limit import COPY_BYTES

# Over the measured limit by more than this no rate is believed; the limit itself is a measurement.
MARGIN = 1.05
# cuDNN's Winograd convolutions of 3 x 3 multiply up to four times less than their definition says
# (Lavin and Gray 2016, F(4x4, 3x3)); no CPU library of the frameworks here has them.
WINOGRAD = 4.0
# What reading the loss may wait after every block, as a share of the block and in seconds. More:
# the device was still at work. After some blocks it may be more: a thread has to wake up.
LOSS_WAIT_SHARE = 0.05
LOSS_WAIT_S = 1e-3
CLASS = "Impossible"


def problem(record: Record, epochs: int, limit: Limit | None) -> Error | None:
    """Why the figures of a run that ended well cannot be true; None where they can.

    `epochs` were asked for; `limit` is what the device can do at most, None where it is unknown.
    """
    found = next(_contradictions(record, epochs), None) or beyond(record, limit)
    if found is None:
        return None
    hint = "the worker or the machine's clock is at fault; dlsuite report has the run's log"
    return Error(error_class=CLASS, message=found, hint=hint)


def _contradictions(record: Record, epochs: int) -> Iterator[str]:
    blocks = record.blocks
    for number, (before, after) in enumerate(pairwise(blocks), start=2):
        elapsed_s = (after.monotonic_ns - before.monotonic_ns) / 1e9
        if elapsed_s < 0:
            yield f"the clock ran backwards by {-elapsed_s:.3g} s before block {number} ended"
        elif after.duration_s > elapsed_s:
            yield (
                f"block {number} is said to have taken {after.duration_s:.3g} s, "
                f"{elapsed_s:.3g} s after the one before it"
            )
        if None not in (before.step, after.step) and after.step - before.step < after.steps:  # type: ignore[operator]
            done = after.step - before.step  # type: ignore[operator]
            yield f"block {number} is of {after.steps} steps, but {done} were done since the last"
    if len(record.epochs) < epochs:
        yield f"{len(record.epochs)} of {epochs} epochs were done"
    asked, done = record.steps, record.optimizer_steps
    if asked is not None and done is not None and asked != done:
        yield f"the optimiser did {done:,} steps where {asked:,} were timed"
    timed = [block for block in blocks if not block.warmup and block.loss_wait_s is not None]
    if timed:
        wait_s = min(block.loss_wait_s or 0.0 for block in timed)
        share_of_block = min((block.loss_wait_s or 0.0) / block.duration_s for block in timed)
        if share_of_block > LOSS_WAIT_SHARE and wait_s > LOSS_WAIT_S:
            yield (
                "the device was still computing when the clock stopped: the loss came "
                f"another {share_of_block:.0%} of each block later, or more"
            )


def beyond(record: Record, limit: Limit | None) -> str | None:
    """By how much the rate is beyond what the device can do at most; None where it is not."""
    of_limit = share(record, record.samples_per_s, limit)
    if of_limit is None:
        return None
    kind = record.device.partition(":")[0]
    at_most = MARGIN * (WINOGRAD if kind == "cuda" and _has_winograd(record.model) else 1)
    times = "times what this device was measured to do at most"
    if of_limit.compute > at_most:
        return f"{record.samples_per_s:,.0f} samples/s are {of_limit.compute:.2f} {times} (compute)"
    # A step that moves less than the copy by which the bandwidth is measured may stay in caches.
    cached = record.bytes_per_sample * record.batch_size < 2 * COPY_BYTES[kind]
    if of_limit.memory > MARGIN and not cached:
        return f"{record.samples_per_s:,.0f} samples/s are {of_limit.memory:.2f} {times} (memory)"
    return None


def _has_winograd(model: str) -> bool:
    """Whether the model has convolutions that may be computed with fewer multiplications."""
    return any(
        isinstance(layer, Conv2d) and layer.stride == (1, 1) and min(layer.kernel) > 1
        for layer in MODELS[model]().leaves()
    )
