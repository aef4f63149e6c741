"""The proof with the real frameworks; the faults that it must find are in the self-test's test."""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from suite import manifest, parity
from suite.engines.venv import VenvEngine
from suite.parity import Certificate
from suite.paths import WORKER
from suite.plan import expand
from suite.reference import Reference, relative_error
from suite.report.parity_table import QUANTITIES
from suite.runner import Runner
from suite.selftest import Fault
from suite.tensors import ProofFailed, Tensors
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


def test_the_error_is_relative_and_bad_values_are_infinite() -> None:
    expected = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.5]), expected) == pytest.approx(0.1)
    assert relative_error(np.array([3.0, math.nan]), expected) == math.inf
    assert relative_error(np.array([3.0]), expected) == math.inf
    assert relative_error(np.array([0.5]), np.array([0.0])) == 0.5


GOOD, BAD = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 2e-4}


def test_every_step_is_judged_not_the_last_one() -> None:
    assert parity.verdict([GOOD, GOOD], []) is None
    assert parity.verdict([GOOD, BAD, GOOD], []) == (
        "step 1: gradients a is off by 2.0e-04, more than 1e-04"
    )
    assert parity.verdict([{"logits": math.nan}], []) is not None
    assert parity.worst([GOOD, BAD]) == {"logits": 1e-6, "gradients": 2e-4}
    assert parity.share([GOOD, BAD], []) == pytest.approx(2)


@dataclass
class Known:
    """A reference of which only float32's tolerances matter: by one draw, and by all."""

    one: list[dict[str, float]]
    all: list[dict[str, float]] | None = None

    def float32_tolerances(self, moves: int) -> list[dict[str, float]]:
        return self.one if moves == 1 or self.all is None else self.all


def test_a_tolerance_is_raised_only_where_float32_itself_loses_more() -> None:
    step = {"logits": 1e-6, "gradients a": 3e-4}
    found = parity.judged([BAD, BAD], Known([step, step]))
    assert found.raised == [{"gradients a": pytest.approx(3e-4)}] * 2 and found.kinks == 0
    assert parity.verdict(found.errors, found.raised) is None
    assert parity.share(found.errors, found.raised) == pytest.approx(2 / 3)
    assert parity.verdict([{"logits": 2e-4, "gradients a": 0}], found.raised) is not None
    unasked = parity.judged([GOOD], Known([]))  # then float32 is not asked
    assert unasked == parity.Judged(errors=[GOOD], raised=[], kinks=0)


def test_float32_may_lose_what_both_lowerings_do_and_any_draw_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each run is off by so much in its one tensor, which is 1 in float64."""
    off = {("pytorch", 0): 1e-6, ("pytorch", 1): 1e-5, ("pytorch", 2): 1e-3}
    off |= {("jax", 0): 3e-6, ("jax", 1): 2e-6, ("jax", 2): 1e-4}

    def cached(
        self: Reference, which: tuple[str, str], precision: str, draw: int = 0
    ) -> list[Tensors]:
        error = 0.0 if precision == "float64" else off[which[0], draw]
        return [{"logits": np.array([1 + error])}]

    monkeypatch.setattr(Reference, "_cached", cached)
    reference = Reference(prover=None, trial=None, key="")  # type: ignore[arg-type]
    expected = [max(10 * 1e-6, 2 * 1e-5), 10 * 3e-6]
    assert reference.float32_tolerances(1) == [{"logits": pytest.approx(min(expected))}]
    assert reference.float32_tolerances(2) == [{"logits": pytest.approx(2 * 1e-4)}]


def test_more_draws_are_asked_for_where_one_does_not_explain_an_error() -> None:
    calm, shaken = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 1e-3}
    jump = [GOOD | {"gradients a": 9e-4}] * 3  # in more steps than kinks are forgiven in
    found = parity.judged(jump, Known([calm] * 3, [shaken] * 3))
    assert parity.verdict(found.errors, found.raised) is None and found.kinks == 0
    found = parity.judged(jump, Known([calm] * 3, [calm] * 3))
    assert parity.verdict(found.errors, found.raised) is not None


def test_steps_that_float32_itself_loses_show_nothing() -> None:
    fine, lost = {"logits": 1e-4, "gradients a": 1e-3}, {"logits": 2e-2, "gradients a": 5}
    found = parity.judged([BAD, BAD, BAD], Known([fine, lost, fine]))
    assert len(found.errors) == len(found.raised) == 1
    found = parity.judged([BAD], Known([lost]))
    assert "nothing can be shown" in str(parity.verdict(found.errors, found.raised))


def at_kinks(*steps: int, size: float = 1e-3) -> str | None:
    """The verdict where a gradient jumps in these of ten steps, and its updates a little."""
    errors = [{"logits": 1e-6, "gradients a": 1e-6, "updates a": 1e-6} for _ in range(10)]
    for step in steps:
        errors[step]["gradients a"] = size
        for later in errors[step:]:
            later["updates a"] = size / 5
    found = parity.judged(errors, Known([GOOD | {"updates a": 1e-6}] * 10))
    return parity.verdict(found.errors, found.raised)


def test_a_gradient_may_jump_at_a_kink_in_two_steps_but_not_far() -> None:
    assert at_kinks() is None and at_kinks(3) is None and at_kinks(3, 7) is None
    assert at_kinks(3, 5, 7) == "step 3: gradients a is off by 1.0e-03, more than 1e-04"
    assert at_kinks(3, size=2e-2) == "step 3: gradients a is off by 2.0e-02, more than 1e-04"


def in_places(count: int, size: float = 1e-3) -> str | None:
    """The verdict where of forty parameters so many are off in every step, gradient and all."""
    names = [f"{quantity} {number}" for quantity in parity.BY_GRADIENT for number in range(40)]
    right = {"logits": 1e-6, **dict.fromkeys(names, 1e-6)}
    off = {name: size for name in names if int(name.split()[1]) < count}
    found = parity.judged([right | off] * 10, Known([right] * 10))
    return parity.verdict(found.errors, found.raised)


def test_kinks_may_last_where_they_are_in_few_places_but_are_not_far() -> None:
    assert in_places(0) is None and in_places(1) is None and in_places(2) is None
    assert in_places(3) == "step 0: gradients 0 is off by 1.0e-03, more than 1e-04"
    assert in_places(1, size=2e-2) == "step 0: gradients 0 is off by 2.0e-02, more than 1e-04"
