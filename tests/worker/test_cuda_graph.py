"""PyTorch's variant `cuda_graph` on a CPU, with a substitute for the capture of CUDA."""

from pathlib import Path

import pytest

from tests.worker.conftest import in_environment

# A capture computes nothing, and its replay repeats the operations on the same tensors. The
# substitute stores the function that `Steps` calls, and calls it again at each replay.
COMPARE = """
import contextlib, dataclasses, sys
from pathlib import Path
import numpy as np
import torch
from suite.worker.data import Batches
from suite.worker.frameworks.pytorch import cuda_graph
from suite.worker.frameworks.pytorch.session import Session
from suite.worker.protocol import Trial, read_weights

class Graph:
    def replay(self):
        self.replay_again()

class Stream:
    def wait_stream(self, other):
        pass

@contextlib.contextmanager
def capturing(graph):
    recorded = []
    steps = SESSION._graph
    step = steps._step
    steps._step = lambda batch: recorded.append(batch) or LOSS
    yield
    steps._step = step
    def again():
        for batch in recorded:
            LOSS.copy_(step(batch))
    graph.replay_again = again

torch.cuda.CUDAGraph, torch.cuda.Stream, torch.cuda.graph = Graph, Stream, capturing
torch.cuda.current_stream = Stream
torch.cuda.stream = lambda stream: contextlib.nullcontext()
LOSS = torch.zeros(())
make_adamw = torch.optim.AdamW
# A CPU has no capturable form.
torch.optim.AdamW = lambda *given, capturable, **options: make_adamw(*given, **options)

trial = Trial.read(Path(sys.argv[1]))
options = [
    {"name": "sgd", "learning_rate": 0.01},
    {"name": "momentum", "learning_rate": 0.01, "momentum": 0.9},
    {"name": "rmsprop", "learning_rate": 0.001, "decay": 0.9, "epsilon": 1e-7},
    {"name": "adamw", "learning_rate": 0.01, "weight_decay": 0.5, "beta1": 0.9, "beta2": 0.999,
     "epsilon": 1e-3},
]
for optimizer in options:
    trial = dataclasses.replace(trial, optimizer=optimizer)
    batches = Batches(trial, "NCHW")
    plain = Session(dataclasses.replace(trial, variant="channels_last"), read_weights(trial))
    SESSION = Session(dataclasses.replace(trial, variant="cuda_graph"), read_weights(trial))
    loss = SESSION.train_step(SESSION.put(*batches.at(0)))
    for start in (1, 4):
        loss = SESSION.train_steps(SESSION.put(*batches.stack(range(start, start + 3))))
    for step in range(7):
        expected = plain.train_step(plain.put(*batches.at(step)))
    assert SESSION.step_count() == plain.step_count() == 7
    np.testing.assert_allclose(SESSION.read(loss), plain.read(expected), rtol=1e-5)
    for name, values in plain.weights().items():
        np.testing.assert_allclose(SESSION.weights()[name], values, rtol=1e-4, atol=1e-6)
    for slot, named in plain.optimizer_state().items():
        for name, values in named.items():
            found = SESSION.optimizer_state()[slot][name]
            np.testing.assert_allclose(found, values, rtol=1e-3, atol=1e-6)
print("compared")
"""


@pytest.mark.verify
def test_replayed_steps_are_those_of_channels_last(tmp_path: Path, trial_folder: Path) -> None:
    output = in_environment("pytorch", COMPARE, str(trial_folder), folder=tmp_path)
    assert output == "compared\n"
