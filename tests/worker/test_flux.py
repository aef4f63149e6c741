"""Flux's worker with Julia, and a stand-in for Flux: everything but Flux's own numbers."""

import os
import shutil
from pathlib import Path

import pytest

from suite.engines.errors import FrameworkUnavailable
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.runner import conformance
from tests.worker.conftest import in_environment

STUB = Path(__file__).parent / "flux_stub"
FLUX = catalog.framework("flux")
HERE = shutil.which("julia") or os.environ.get("DLSUITE_REQUIRE_JULIA")
pytestmark = pytest.mark.skipif(not HERE, reason="Julia is not on PATH (.ci/julia installs it)")


# The stand-in's gradients are a hundredth of the parameters.
VALUES = """
import os, sys
os.environ["JULIA_LOAD_PATH"] = sys.argv[2] + ":@stdlib"
from pathlib import Path
import numpy as np
from suite.worker.protocol import Trial, read_weights
from suite.worker.frameworks.flux.session import Session

trial = Trial.read(Path(sys.argv[1]))
weights = read_weights(trial)
session = Session(trial, weights)
inputs = np.zeros((trial.batch_size, 1, 28, 28), np.float32)
labels = np.arange(trial.batch_size, dtype=np.int32) % 10

def close(found, factor):
    assert found.keys() == weights.keys()
    for name, values in weights.items():
        np.testing.assert_allclose(found[name], factor * values, rtol=1e-5, err_msg=name)

close(session.weights(), 1)
logits, gradients = session.gradients(inputs, labels)
assert logits.shape == (trial.batch_size, 10)
close(gradients, 0.01)
close(session.weights(), 1)
for _ in range(3):
    session.train_step(session.put(inputs, labels))
close(session.weights(), (1 - 0.01 * trial.optimizer["learning_rate"]) ** 3)
assert session.step_count() == 3
print("compared")
"""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JULIA_LOAD_PATH", f"{STUB}{os.pathsep}@stdlib")


@pytest.mark.usefixtures("stub")
@pytest.mark.verify
def test_the_worker_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = VenvEngine()
    prepared = engine.prepare(FLUX, print)
    monkeypatch.setenv("PYTHONPATH", str(engine.staged()))
    command = [str(prepared.python), "-m", "suite.worker"]
    assert conformance.check(command, framework="flux") == []


@pytest.mark.usefixtures("stub")
def test_parameters_and_gradients_keep_their_layout(trial_folder: Path, tmp_path: Path) -> None:
    """Julia has matrices by columns, and convolutions flipped."""
    output = in_environment("flux", VALUES, str(trial_folder), str(STUB), folder=tmp_path)
    assert output.endswith("compared\n")


def test_where_flux_is_missing_it_is_unavailable_in_julias_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JULIA_LOAD_PATH", "@stdlib")
    with pytest.raises(FrameworkUnavailable, match="Package Flux not found"):
        VenvEngine().prepare(FLUX, print)
