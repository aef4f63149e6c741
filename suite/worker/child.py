"""A process of another Python that computes for this one.

It is for frameworks whose packages need an older Python than this worker. A request and its answer
are one line of JSON each; arrays lie in memory that both processes share.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .endings import ended
from .protocol import Array

FOLDER = "child"  # of the other Python's environment, inside that of this one
PYTHON = Path(FOLDER, "bin", "python")
ALIGNED_BYTES = 64
RSS_PEAK = "child_rss_peak_bytes"  # a key of `memory`
# The errors of the other process that are the same class here; all others are RuntimeError.
CLASSES = {each.__name__: each for each in (NotImplementedError, MemoryError, ValueError)}


class Child:
    """A module that runs in the other Python, with the packages of its environment.

    The module gets the numbers of two files: the shared memory, and the pipe for its answers. It
    reads requests from standard input, and ends where that ends.
    """

    def __init__(self, title: str, module: str, path: Path, environment: Mapping[str, str]) -> None:
        """`title`: for messages; `path`: the folder of the module.

        Raise RuntimeError where there is no other Python.
        """
        python = Path(sys.prefix) / PYTHON
        if not python.exists():
            raise RuntimeError(f"{title} needs the Python that dlsuite adds to its environment")
        self._title = title
        self._memory = os.memfd_create(module)
        answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [str(python), "-m", module, str(self._memory), str(theirs)],
            stdin=subprocess.PIPE,
            stdout=sys.stderr,
            env={**os.environ, **environment, "PYTHONPATH": str(path)},
            pass_fds=(self._memory, theirs),
        )
        os.close(theirs)
        self._answers = os.fdopen(answers, "rb")

    def share(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, Array], list[Any]]:
        """New float32 arrays of zeros in the shared memory, and a list that describes them.

        The list has a name, an offset in bytes and a shape for each of them.
        """
        places: list[tuple[str, int, tuple[int, ...]]] = []
        end = 0
        for name, shape in shapes.items():
            places.append((name, end, shape))
            end += -(-4 * math.prod(shape) // ALIGNED_BYTES) * ALIGNED_BYTES
        os.ftruncate(self._memory, end)
        shared = mmap.mmap(self._memory, end)
        arrays = {
            name: np.frombuffer(shared, np.float32, math.prod(shape), offset).reshape(shape)
            for name, offset, shape in places
        }
        return arrays, places

    def ask(self, work: str, **arguments: Any) -> Any:
        """The answer to a request.

        Raise the error of the other process, or RuntimeError where it has ended.
        """
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"work": work, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise RuntimeError(f"the process of {self._title} {ended(self._process.wait())}")
        answer = json.loads(line)
        if "error" in answer:
            raise CLASSES.get(answer["class"], RuntimeError)(f"{self._title}: {answer['error']}")
        return answer["value"]
