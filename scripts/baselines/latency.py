"""The stopwatch of inference, of the hand-written scripts and of the suite's own call."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np


def serve_calls(
    predict: Callable[[np.ndarray], np.ndarray],
    images: np.ndarray,
    reduced: Callable[[list[float]], float] = statistics.median,
) -> None:
    """For each number of calls on standard input, do the calls, with one image each in rotation.

    Print the reduced duration, the median, times the number, in seconds.
    """
    singles = itertools.cycle([images[i : i + 1] for i in range(len(images))])
    for line in sys.stdin:
        durations = []
        for image in itertools.islice(singles, int(line)):
            started = time.perf_counter()
            predict(image)
            durations.append(time.perf_counter() - started)
        print(reduced(durations) * len(durations), flush=True)
