"""Finds implausible values: contradictions, and rates above the hardware peak."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from suite.models import MODELS
from suite.models.layers import Conv2d
from suite.results.record import Error, Record
from suite.results.roofline import HardwarePeak, share
from suite.worker.peak import COPY_BYTES

# A rate above the peak by more than this is impossible; the peak itself is a measurement.
MARGIN = 1.05
# cuDNN's Winograd convolutions of 3 x 3 need up to four times fewer multiplications than the
# definition (Lavin and Gray 2016, F(4x4, 3x3)); no CPU library of the frameworks here has them.
WINOGRAD = 4.0
# Reading the loss may wait this long after every block, as a share of the block and in seconds. A
# longer wait after every block means that the device was still computing; after a single block it
# may be a thread that wakes up late.
LOSS_WAIT_SHARE = 0.05
LOSS_WAIT_S = 1e-3
CLASS = "Impossible"


def problem(record: Record, epochs: int, peak: HardwarePeak | None) -> Error | None:
    """Why the figures of a run with status ok are impossible; None where they are plausible.

    `epochs` is the requested number; `peak` is None where it is unknown.
    """
    found = next(_contradictions(record, epochs), None) or beyond(record, peak)
    if found is None:
        return None
    hint = "the worker or the machine's clock is wrong; the record names the log of the run"
    return Error(error_class=CLASS, message=found, hint=hint)


def _contradictions(record: Record, epochs: int) -> Iterator[str]:
    """Figures that contradict each other or the request."""
    blocks = record.blocks.rows()
    for number, (before, after) in enumerate(pairwise(blocks), start=2):
        elapsed_s = (after.monotonic_ns - before.monotonic_ns) / 1e9
        if elapsed_s < 0:
            yield f"the clock ran backwards by {-elapsed_s:.3g} s before block {number} ended"
        elif after.duration_s > elapsed_s:
            yield (
                f"block {number} reports {after.duration_s:.3g} s, but ended "
                f"{elapsed_s:.3g} s after the block before it"
            )
        if before.step is not None and after.step is not None:
            since = after.step - before.step
            if since < after.steps:
                yield f"block {number} reports {after.steps} steps, but only {since} were done"
    if len(record.epochs) < epochs:
        yield f"{len(record.epochs)} of {epochs} epochs were done"
    timed_steps, done = record.steps, record.optimizer_steps
    if timed_steps is not None and done is not None and timed_steps != done:
        yield f"the optimizer did {done:,} steps, but {timed_steps:,} were timed"
    timed = [block for block in blocks if not block.warmup and block.loss_wait_s is not None]
    if timed:
        wait_s = min(block.loss_wait_s or 0.0 for block in timed)
        share_of_block = min((block.loss_wait_s or 0.0) / block.duration_s for block in timed)
        if share_of_block > LOSS_WAIT_SHARE and wait_s > LOSS_WAIT_S:
            yield (
                "the device was still computing when the clock stopped: the loss came "
                f"at least {share_of_block:.0%} of a block later, after every block"
            )


def beyond(record: Record, peak: HardwarePeak | None) -> str | None:
    """By how much the rate exceeds the hardware peak; None where it does not.

    The peak of a CPU is that of all cores. A part of them may be faster than its share: it may have
    a higher clock, and reach more of the memory's bandwidth.
    """
    reached = share(record, record.samples_per_s, peak)
    kind = record.devices.kind
    part = kind == "cpu" and record.cores < len(record.environment.get("cpus") or [])
    if reached is None or part:
        return None
    at_most = MARGIN * (WINOGRAD if kind == "cuda" and _has_winograd(record.workload.model) else 1)
    times = "times the measured peak of this device"
    if reached.compute > at_most:
        return f"{record.samples_per_s:,.0f} samples/s are {reached.compute:.2f} {times} (compute)"
    # The traffic of a step that moves less than the copy that measured the bandwidth may be cached.
    cached = record.bytes_per_sample * record.workload.batch_size < 2 * COPY_BYTES[kind]
    if reached.memory > MARGIN and not cached:
        return f"{record.samples_per_s:,.0f} samples/s are {reached.memory:.2f} {times} (memory)"
    return None


def _has_winograd(model: str) -> bool:
    """Whether the model has convolutions that Winograd's algorithms can compute."""
    if model not in MODELS:  # of a run that another checkout made
        return True
    return any(
        isinstance(layer, Conv2d) and layer.stride == (1, 1) and min(layer.kernel) > 1
        for layer in MODELS[model]().leaves()
    )
