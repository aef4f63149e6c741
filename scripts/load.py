"""Makes a load that disturbs measurements, until it is interrupted.

    scripts/load.py busy      one core for 2 of every 10 s
    scripts/load.py bursts    one core for 0.2 s of every second
    scripts/load.py memory    copies of 256 MiB for 2 of every 10 s
    scripts/load.py hog       copies of 256 MiB, without a pause
    scripts/load.py spinning  one core for 50 of every 70 ms, as a worker whose threads spin

docs/measurements/disturbances.md has what the runs of a suite lose by each of them.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

PERIODS_S = {
    "busy": (2.0, 10.0),
    "bursts": (0.2, 1.0),
    "memory": (2.0, 10.0),
    "hog": (1.0, 1.0),
    "spinning": (0.05, 0.07),
}
OF_MEMORY = ("memory", "hog")
COPY_BYTES = 2**28


def compute() -> None:
    """A short computation."""
    sum(range(10_000))


def copies() -> Callable[[], None]:
    """A function that copies memory."""
    source, target = bytearray(COPY_BYTES), bytearray(COPY_BYTES)

    def copy() -> None:
        target[:] = source

    return copy


def main(kind: str) -> None:
    active_s, period_s = PERIODS_S[kind]
    work = copies() if kind in OF_MEMORY else compute
    while True:
        start_s = time.monotonic()
        while time.monotonic() - start_s < active_s:
            work()
        time.sleep(period_s - active_s)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
