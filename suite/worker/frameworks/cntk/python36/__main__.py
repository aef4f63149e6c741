"""Answers the requests of the session: `python -m python36 MEMORY ANSWERS`, two open files."""

import json
import mmap
import os
import platform
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")  # about the Linux distribution, and CUDA

import cntk  # noqa: E402
import numpy as np  # noqa: E402

from .training import Model  # noqa: E402


class Work:
    """Each method but `arrays` answers a request of its name."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._model: Any = None

    def facts(self) -> "dict[str, Any]":
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return {
            "cntk": cntk.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "threads": cntk.cntk_py.get_max_num_cputhreads(),
            "rss_peak_bytes": 1024 * int(status.split("VmHWM:")[1].split()[0]),
        }

    def build(self, places: "list[Any]", threads: Any, **task: Any) -> None:
        cntk.device.try_set_default_device(cntk.device.cpu())
        if threads is not None:
            cntk.cntk_py.set_max_num_cputhreads(threads)
        shared = mmap.mmap(self._memory, 0)
        arrays = {
            name: np.frombuffer(shared, np.float32, int(np.prod(shape)), offset).reshape(shape)
            for name, offset, shape in places
        }
        self._model = Model(arrays, **task)

    def train(self, batches: "list[int]") -> None:
        self._model.train(batches)

    def loss(self) -> float:
        return self._model.loss()

    def infer(self, batch: int) -> None:
        self._model.infer(batch)

    def differentiate(self, batch: int) -> None:
        self._model.differentiate(batch)

    def read(self, name: str) -> None:
        self._model.read(name)

    def read_statistics(self) -> None:
        self._model.read_statistics()

    def steps(self) -> int:
        return self._model.steps()


def main(memory: int, answers: int) -> None:
    """Answer until standard input ends: then the worker has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's
    work = Work(memory)
    for line in sys.stdin.buffer:
        request = json.loads(line.decode())
        try:
            answer = {"value": getattr(work, request.pop("work"))(**request)}
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]  # CNTK adds the stack of its C++
            answer = {"error": first, "class": type(error).__name__}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
