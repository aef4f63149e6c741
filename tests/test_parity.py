"""The proof with the real frameworks, and the faults that it must find.

Faults are planted in a copy of the worker's source: what is tested is that a worker which does
other work than it should is caught, wherever the mistake sits.
"""

import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from suite import manifest, parity
from suite.engines.venv import VenvEngine
from suite.parity import Certificate
from suite.paths import WORKER
from suite.plan import expand
from suite.runner import Runner
from tests.conftest import Silent


def certify(*frameworks: str, worker: Path = WORKER) -> dict[str, Certificate]:
    """Certificates by framework:variant, made with the environments of `make bench`."""
    plan = expand(manifest.suite("quick"), manifest.frameworks(), only=frameworks)
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(VenvEngine(worker), Silent(), Path(work))
        given = next(iter(runner.inputs(plan).values()))
        runner.prepare(plan.frameworks)
        found = runner.certify(list(plan.trials), given)
    return {f"{each.framework}:{each.variant}": each for each in found.values()}


def with_fault(tmp_path: Path, file: str, right: str, wrong: str) -> Path:
    """A copy of the worker in which one file says `wrong` where it said `right`."""
    worker = tmp_path / "worker"
    shutil.copytree(WORKER, worker, ignore=shutil.ignore_patterns("__pycache__"))
    text = (worker / file).read_text(encoding="utf-8")
    assert right in text
    (worker / file).write_text(text.replace(right, wrong), encoding="utf-8")
    return worker


def test_every_framework_does_the_work_of_the_reference() -> None:
    names = ("pytorch", "tensorflow", "jax", "mxnet", "pytorch:channels_last", "tensorflow:xla")
    certificates = certify(*names)
    assert len(certificates) == 6
    for name, certificate in certificates.items():
        assert certificate.proven, f"{name}: {certificate.reason}"
        assert len(certificate.errors) == 10
        assert list(certificate.worst) == ["logits", "loss", "gradients", "weights", "updates"]
        assert 0 < max(certificate.worst.values()) < 1e-4
        assert certificate.reference_error < 1e-9


def test_a_wrong_flatten_order_is_caught(tmp_path: Path) -> None:
    right = "split.transpose(2, 3, 1, 0).reshape(kernel.shape[::-1])"
    worker = with_fault(tmp_path, "layouts.py", right, "kernel.T")
    certificate = certify("tensorflow", worker=with_reference(worker))["tensorflow:graph"]
    assert certificate.reason is not None and "step 0: logits is off" in certificate.reason


def with_reference(worker: Path) -> Path:
    """Keep JAX, which is one of the references, on the right layouts."""
    shutil.copy(WORKER / "layouts.py", worker / "right_layouts.py")
    jax = worker / "frameworks" / "jax.py"
    jax.write_text(jax.read_text().replace("from ..layouts", "from ..right_layouts"))
    return worker


def test_a_wrong_learning_rate_is_caught(tmp_path: Path) -> None:
    right = 'rate = {"learning_rate": optimizer["learning_rate"]}'
    wrong = 'rate = {"learning_rate": 1.01 * optimizer["learning_rate"]}'
    worker = with_fault(tmp_path, "frameworks/mxnet.py", right, wrong)
    certificate = certify("mxnet", worker=worker)["mxnet:hybrid"]
    assert certificate.reason is not None and "step 0: weights" in certificate.reason


def test_a_small_weight_decay_is_caught(tmp_path: Path) -> None:
    worker = with_fault(
        tmp_path, "frameworks/tensorflow.py", "delta=gradient", "delta=gradient + 1e-4 * variable"
    )
    certificate = certify("tensorflow", worker=worker)["tensorflow:graph"]
    assert certificate.reason is not None and "step 0: updates" in certificate.reason


def test_a_swapped_batch_order_is_caught(tmp_path: Path) -> None:
    right = "epoch, position = divmod(step, self.steps_per_epoch)"
    swap = "step = {3: 4, 4: 3}.get(step, step) if self._tensorflow else step\n        "
    worker = with_fault(tmp_path, "data.py", right, swap + right)
    data = worker / "data.py"
    own = 'self._tensorflow = trial.framework == "tensorflow"\n        self._batch_size'
    data.write_text(data.read_text().replace("self._batch_size", own, 1))
    certificate = certify("tensorflow", worker=worker)["tensorflow:graph"]
    assert certificate.reason is not None and "step 3: logits is off" in certificate.reason


def test_references_that_disagree_are_not_believed(tmp_path: Path) -> None:
    right = "return nnx.relu"
    worker = with_fault(tmp_path, "frameworks/jax.py", right, "return nnx.gelu")
    with pytest.raises(parity.ProofFailed, match="the two float64 references differ"):
        certify("mxnet", worker=worker)


def test_the_error_is_relative_and_bad_values_are_infinite() -> None:
    expected = np.array([3.0, 4.0])
    assert parity.relative_error(np.array([3.0, 4.5]), expected) == pytest.approx(0.1)
    assert parity.relative_error(np.array([3.0, math.nan]), expected) == math.inf
    assert parity.relative_error(np.array([3.0]), expected) == math.inf
    assert parity.relative_error(np.array([0.5]), np.array([0.0])) == 0.5


def test_every_step_is_judged_not_the_last_one() -> None:
    good, bad = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 2e-4}
    assert parity.verdict([good, good]) is None
    assert parity.verdict([good, bad, good]) == (
        "step 1: gradients a is off by 2.0e-04, more than 1e-04"
    )
    assert parity.verdict([{"logits": math.nan}]) is not None
    assert parity.worst([good, bad]) == {"logits": 1e-6, "gradients": 2e-4}
