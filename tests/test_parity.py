"""The proof with the real frameworks; the faults that it must find are in the self-test's test."""

import tempfile
from pathlib import Path

import pytest

from suite import manifest
from suite.engines.venv import VenvEngine
from suite.parity import Certificate
from suite.paths import WORKER
from suite.plan import expand
from suite.report.parity_table import QUANTITIES
from suite.runner import Runner
from suite.selftest import Fault
from suite.tensors import ProofFailed
from tests.conftest import Silent


def certify(
    *frameworks: str, worker: Path = WORKER, model: str = "lenet"
) -> dict[str, Certificate]:
    """Certificates by framework:variant, made with the environments of `make bench`."""
    suite = manifest.suite("zoo")
    only = tuple(workload for workload in suite.workloads if workload.model == model)
    chosen = suite.model_copy(update={"workloads": only})
    plan = expand(chosen, manifest.frameworks(), only=frameworks)
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(VenvEngine(worker), Silent(), Path(work))
        given = next(iter(runner.inputs(plan).values()))
        runner.prepare(plan.frameworks)
        found = runner.certify(list(plan.trials), given)
    return {f"{each.framework}:{each.variant}": each for each in found.values()}


def with_fault(tmp_path: Path, file: str, right: str, wrong: str) -> Path:
    """A copy of the worker in which one file says `wrong` where it said `right`."""
    fault = Fault(name="planted", framework="", file=file, right=right, wrong=wrong)
    return fault.plant(tmp_path / "worker")


def test_every_framework_does_the_work_of_the_reference() -> None:
    names = ("pytorch", "tensorflow", "jax", "mxnet", "pytorch:channels_last", "tensorflow:xla")
    certificates = certify(*names)
    assert len(certificates) == 6
    for name, certificate in certificates.items():
        assert certificate.proven, f"{name}: {certificate.reason}"
        assert len(certificate.errors) == certificate.steps == 10
        assert set(certificate.worst) == set(QUANTITIES) - {"statistics"}  # no batch norm
        assert 0 < max(certificate.worst.values()) < 1e-4
        assert 0 < certificate.share < 1 and certificate.raised == []
        assert certificate.reference_error < 1e-9


@pytest.mark.parametrize("model", ["every_layer", "every_sequence"])
def test_every_kind_of_layer_is_the_same_in_every_framework(model: str) -> None:
    """With Adam and RMSProp, in the usual form of each and in all of Keras's."""
    names = ("pytorch", "tensorflow", "jax", "mxnet")
    certificates = certify(*names, "keras", "keras:jax", "keras:pytorch", model=model)
    assert len(certificates) == 7
    for name, certificate in certificates.items():
        assert certificate.proven, f"{name}: {certificate.reason}"
        assert len(certificate.errors) == 10
        assert set(certificate.worst) == set(QUANTITIES)


def test_a_wrong_learning_rate_is_caught(tmp_path: Path) -> None:
    right = "return mx.optimizer.SGD(learning_rate=rate)"
    wrong = "return mx.optimizer.SGD(learning_rate=1.01 * rate)"
    worker = with_fault(tmp_path, "frameworks/mxnet.py", right, wrong)
    certificate = certify("mxnet", worker=worker)["mxnet:hybrid"]
    assert "step 0: weights conv1.bias is off by 1.0e-02" in str(certificate.reason)


def test_a_small_weight_decay_is_caught(tmp_path: Path) -> None:
    right = "self._gradient: gradient}"
    wrong = "self._gradient: gradient + 1e-4 * variable}"
    worker = with_fault(tmp_path, "frameworks/tensorflow.py", right, wrong)
    certificate = certify("tensorflow", worker=worker)["tensorflow:graph"]
    assert certificate.reason is not None and "step 0: updates" in certificate.reason


def test_references_that_disagree_are_not_believed(tmp_path: Path) -> None:
    worker = with_fault(
        tmp_path, "frameworks/jax_layers.py", '"relu": nnx.relu', '"relu": nnx.gelu'
    )
    with pytest.raises(ProofFailed, match="the two float64 references differ"):
        certify("mxnet", worker=worker)
