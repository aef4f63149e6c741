"""Certificates with the real frameworks. The self-test's tests plant the faults."""

import tempfile
from pathlib import Path

import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.files import names
from suite.manifests.workloads import SuiteWorkload
from suite.models import MODELS
from suite.parity.certificates import Certificate
from suite.parity.tensors import ProofFailed
from suite.paths import WORKER
from suite.protocol.expansion import expand
from suite.report.parity_table import QUANTITIES
from suite.runner.runner import Runner
from suite.runner.selftest.faults import Fault
from suite.runner.support import unsupported_reason
from tests.conftest import Silent
from tests.report.test_parity_table import certificate as partly_judged


def certify(
    *frameworks: str, worker: Path = WORKER, model: str = "lenet", accumulate: int = 1
) -> dict[str, Certificate]:
    """Certificates by framework:variant, made with the environments of `make bench`.

    Raise the first ProofFailed.
    """
    workloads = tuple(
        each
        for each in catalog.suite("zoo").workloads
        if (each.model, each.accumulate) == (model, accumulate)
    )
    return certify_of(workloads, *frameworks, worker=worker)


def certify_of(
    workloads: tuple[SuiteWorkload, ...], *frameworks: str, worker: Path = WORKER
) -> dict[str, Certificate]:
    """As `certify`, of any workloads with the same inputs."""
    chosen = catalog.suite("zoo").model_copy(update={"workloads": workloads})
    plan = expand(chosen, catalog.frameworks(), catalog.tracks(), only=frameworks)
    able = [trial for trial in plan.trials if unsupported_reason(trial) is None]
    plan = plan.only(able)
    with tempfile.TemporaryDirectory() as work_dir:
        runner = Runner(VenvEngine(worker), Silent(), Path(work_dir))
        (inputs,) = runner.prepare(plan).values()
        found = runner.certify(list(plan.trials), inputs, fresh=False)
    certificates = {}
    for each in found.values():
        if isinstance(each, ProofFailed):
            raise each
        certificates[f"{each.framework}:{each.variant}"] = each
    return certificates


@pytest.mark.verify
@pytest.mark.parametrize(
    "model",
    [
        *("every_layer", "every_sequence", "every_mobile", "every_window", "every_channel"),
        *("every_decoder", "every_attention", "every_swin", "every_text", "every_padded"),
        "every_response",
    ],
)
def test_every_kind_of_layer_is_the_same_in_every_framework(model: str) -> None:
    """With Adam and RMSProp, in each default variant; `make parity-small` tests all variants."""
    certificates = certify(*names("framework"), "jax:matmul", model=model)
    quantities = set(QUANTITIES) - (set() if MODELS[model]().statistics() else {"statistics"})
    usual = {"jax:jit", "jax:matmul", "keras:tensorflow", "mxnet:hybrid", "pytorch:eager"}
    assert usual | {"tensorflow:graph"} <= set(certificates)
    for name, certificate in certificates.items():
        assert certificate.proven, f"{name}: {certificate.reason}"
        assert len(certificate.errors) == 10
        assert set(certificate.worst) == quantities
        assert 0 < certificate.share < 1
        assert certificate.reference_error < 1e-9


@pytest.mark.verify
def test_accumulated_and_averaged_steps_are_the_same_in_every_framework() -> None:
    certificates = certify(*names("framework"), model="every_layer", accumulate=2)
    assert {each.split(":")[0] for each in certificates} == {
        *("jax", "keras", "mxnet", "paddle", "pytorch", "tensorflow")
    }
    for name, certificate in certificates.items():
        assert certificate.proven, f"{name}: {certificate.reason}"


def test_the_status_has_the_number_of_judged_steps() -> None:
    assert partly_judged(None).status().steps == 7


def test_lowerings_that_disagree_are_no_reference(tmp_path: Path) -> None:
    fault = Fault(
        name="gelu",
        framework="jax",
        file="frameworks/jax/layers.py",
        right='"relu": nnx.relu',
        wrong='"relu": nnx.gelu',
    )
    worker = fault.plant(tmp_path / "worker")
    with pytest.raises(ProofFailed, match="the two float64 references differ"):
        certify("mxnet", worker=worker)
