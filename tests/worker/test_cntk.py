"""CNTK's worker, with the process of Python 3.6 that computes for it."""

from pathlib import Path

import pytest

from suite.engines.errors import FrameworkUnavailable
from suite.engines.venv import environments, interpreters
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.runner import conformance
from suite.worker.programs import ask
from tests.worker.conftest import in_environment

CNTK = catalog.framework("cntk")
assert CNTK.child
HERE = interpreters.find(CNTK.child.python) and not ask(CNTK.check, timeout_s=60).problem
needs_cntk = pytest.mark.skipif(not HERE, reason="no Python 3.6, or no Open MPI 3 or 4")

# What a session does in the order in which it is asked, and where it has no place for a batch.
ORDER = """
import sys
from pathlib import Path
import numpy as np
from suite.worker.protocol import Trial, read_weights
from suite.worker.frameworks.cntk import session

trial = Trial.read(Path(sys.argv[1]))
weights = read_weights(trial)
made = session.Session(trial, weights)
inputs = np.random.default_rng(0).standard_normal((trial.batch_size, 1, 28, 28)).astype(np.float32)
labels = np.arange(trial.batch_size, dtype=np.int32) % 10

def close(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-6, err_msg=name)

close(made.weights(), weights)
_, gradients = made.gradients(inputs, labels)
close(made.weights(), weights)
made.train_step(made.put(inputs, labels))
rate = trial.optimizer["learning_rate"]
close(made.weights(), {name: weights[name] - rate * gradients[name] for name in weights})
# More steps than places, then a result: all of them are done before it.
for _ in range(3 * session.BATCHES):
    made.train_step(made.put(inputs, labels))
assert made.step_count() == 1 + 3 * session.BATCHES
kept = [made.put(inputs, labels) for _ in range(session.BATCHES)]
try:
    made.put(inputs, labels)
except IndexError:
    print("no place")
"""

DEAD = """
import os, signal, sys
from pathlib import Path
from suite.worker.frameworks.cntk import session

session._cntk._process.kill()
try:
    session.version()
except RuntimeError as error:
    print(error)
"""


@needs_cntk
def test_the_worker_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = VenvEngine()
    prepared = engine.prepare(CNTK, print)
    monkeypatch.setenv("PYTHONPATH", str(engine.staged()))
    command = [str(prepared.python), "-m", "suite.worker"]
    assert conformance.check(command, framework="cntk") == []


@needs_cntk
def test_steps_wait_for_a_result_and_keep_their_order(trial_folder: Path, tmp_path: Path) -> None:
    output = in_environment("cntk", ORDER, str(trial_folder), folder=tmp_path)
    assert output.endswith("no place\n")


@needs_cntk
def test_the_end_of_its_process_is_an_error_with_the_cause(tmp_path: Path) -> None:
    output = in_environment("cntk", DEAD, folder=tmp_path)
    assert "the process of CNTK was killed by SIGKILL" in output


def test_without_python_3_6_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    found = interpreters.find(CNTK.python)
    monkeypatch.setattr(
        interpreters, "find", lambda python: found if python == CNTK.python else None
    )
    with pytest.raises(FrameworkUnavailable, match=r"CNTK needs Python >=3\.6,<3\.7"):
        environments.ready(CNTK, print)


@pytest.mark.skipif(
    not interpreters.find(CNTK.child.python), reason="no Python 3.6 (pyenv install 3.6)"
)
def test_without_open_mpi_it_is_unavailable_in_one_line() -> None:
    missing = tuple(part.replace("libmpi_cxx", "libmissing") for part in CNTK.check)
    with pytest.raises(FrameworkUnavailable, match="Open MPI 3 or 4 is missing"):
        environments.ready(CNTK.model_copy(update={"check": missing}), print)
