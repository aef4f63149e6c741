"""Programs of PyTorch's environment, forked from a process that has imported PyTorch.

The import takes seconds, longer than what most tests then do.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.worker import programs
from suite.worker.programs import Answer

SERVER = """
import json, os, runpy, sys, traceback
import torch.fx, torch._subclasses.fake_tensor

torch._subclasses.fake_tensor.FakeTensorMode()  # imports more
sys.dont_write_bytecode = True  # a test writes its file again within the second of its time

for line in sys.stdin:
    request = json.loads(line)
    process = os.fork()
    if process:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(code, flush=True)
        continue
    code = 1
    try:
        for number, path in enumerate(request["outputs"], start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.path[:0] = request["paths"]
        sys.argv = ["", *request["arguments"]]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""


class Forked:
    """`programs.ask` for `python -m MODULE ARGUMENT...` of one Python."""

    def __init__(self, python: Path, folder: Path) -> None:
        """Start the process; `folder` is for the outputs of the programs."""
        self._outputs = [folder / "stdout", folder / "stderr"]
        self._process = subprocess.Popen(
            [python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(
        self,
        command: Sequence[str | Path],
        *,
        timeout_s: float,  # not watched: the program's own test ends it
        environment: Mapping[str, str],
    ) -> Answer:
        assert command[1] == "-m" and self._process.stdin and self._process.stdout
        request = {
            "module": command[2],
            "arguments": [str(each) for each in command[3:]],
            "paths": environment["PYTHONPATH"].split(os.pathsep),
            "outputs": [str(each) for each in self._outputs],
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        output, errors = (each.read_text(errors="replace") for each in self._outputs)
        return programs._ended(Path(command[0]).name, code, output, errors)

    def stop(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
