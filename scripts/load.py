"""Makes a load that disturbs measurements, until it is interrupted.

    scripts/load.py busy      one core for 2 of every 10 s
    scripts/load.py bursts    one core for 0.2 s of every second
    scripts/load.py memory    copies of 256 MiB, without a pause
    scripts/load.py spinning  one core for 50 of every 70 ms, as a worker whose threads spin

docs/measurements/disturbances.md has what the runs of a suite lose by each of them.
"""

from __future__ import annotations

import contextlib
import sys
import time

PERIODS_S = {"busy": (2.0, 10.0), "bursts": (0.2, 1.0), "spinning": (0.05, 0.07)}
COPY_BYTES = 2**28


def busy(active_s: float, period_s: float) -> None:
    """Compute for `active_s` of every `period_s`."""
    while True:
        start_s = time.monotonic()
        while time.monotonic() - start_s < active_s:
            pass
        time.sleep(period_s - active_s)


def memory() -> None:
    """Copy memory without a pause."""
    source = bytearray(COPY_BYTES)
    target = bytearray(COPY_BYTES)
    while True:
        target[:] = source


def main(kind: str) -> None:
    if kind == "memory":
        memory()
    else:
        busy(*PERIODS_S[kind])


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
