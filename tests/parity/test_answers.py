"""The proof of a timed run of inference, without a worker."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from suite.engines.base import Engine, Prepared
from suite.manifests import catalog
from suite.parity import answers
from suite.parity.reference import Reference
from suite.parity.tensors import ProofFailed
from suite.protocol.plan import Trial
from suite.results.record import Closing, Record
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.worker.proof import CLOSING
from tests.results.test_record import PROVEN, record

LOGITS = np.random.default_rng(0).standard_normal((40, 10))


@pytest.fixture
def trial() -> Trial:
    options = RunOptions(frameworks=("pytorch",), models=("lenet",))
    return plan_of("inference", options, device="cpu").trials[0]


@pytest.fixture
def prove(trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Closing]:
    """Judges saved answers by a reference with the logits LOGITS."""
    monkeypatch.setattr(Reference, "tensors", [{"logits": LOGITS}])
    monkeypatch.setattr(
        Reference, "rounding_tolerances", lambda self, draws, rules: [{"logits": 1e-5}]
    )
    unused: dict[str, Prepared] = {}
    monkeypatch.setattr(
        answers, "reference_of", lambda prover, trial: Reference(prover=prover, trial=trial, key="")
    )

    def engine() -> tuple[Engine, dict[str, Prepared]]:
        return None, unused  # type: ignore[return-value]

    def prove(samples: object, logits: np.ndarray) -> Closing:
        folder = tmp_path / "results" / CLOSING
        folder.mkdir(parents=True)
        np.save(folder / "answers_samples.npy", np.asarray(samples))
        np.save(folder / "answers_logits.npy", logits.astype(np.float32))
        return answers.prove(
            engine,
            trial,
            None,
            folder.parent,
            work_dir=tmp_path,
            notify=print,  # type: ignore[arg-type]
        )

    return prove


def test_right_answers_are_proven_in_any_order_and_repeatedly(
    prove: Callable[..., Closing],
) -> None:
    samples = [3, 39, 3, 0]
    found = prove(samples, LOGITS[samples])
    assert found.proven and found.answers == 4 and found.reason is None
    assert found.share is not None and found.share < 0.01


def test_the_answer_of_another_sample_is_found(prove: Callable[..., Closing]) -> None:
    samples = [*range(40)]
    logits = LOGITS.copy()
    logits[7] = LOGITS[8]
    found = prove(samples, logits)
    assert not found.proven
    assert "closing proof of 40 answers: logits: relative error" in str(found.reason)


def test_a_sample_outside_the_library_is_found(prove: Callable[..., Closing]) -> None:
    found = prove([40], LOGITS[:1])
    assert not found.proven and "an answer is for sample 40 of 40" in str(found.reason)


def test_without_answers_nothing_is_proven(prove: Callable[..., Closing]) -> None:
    found = prove([], np.zeros((0, 10)))
    assert not found.proven and "0 sample numbers" in str(found.reason)


@pytest.mark.parametrize("samples", [[-1], [0.5], 0])
def test_invalid_sample_numbers_are_found(samples: object, prove: Callable[..., Closing]) -> None:
    found = prove(samples, LOGITS[:1])
    assert not found.proven and "sample number" in str(found.reason)


def test_missing_files_and_a_missing_reference_prove_nothing(trial: Trial, tmp_path: Path) -> None:
    def none() -> tuple[Engine, dict[str, Prepared]]:
        raise ProofFailed("no reference")

    results = tmp_path / "results"
    arguments = {"work_dir": tmp_path, "notify": print}
    found = answers.prove(none, trial, None, results, **arguments)  # type: ignore[arg-type]
    assert "answers_samples.npy: [Errno 2]" in str(found.reason)
    (results / CLOSING).mkdir(parents=True)
    np.save(results / CLOSING / "answers_samples.npy", np.zeros(1, np.int32))
    np.save(results / CLOSING / "answers_logits.npy", LOGITS[:1])
    found = answers.prove(none, trial, None, results, **arguments)  # type: ignore[arg-type]
    assert found.reason == "closing proof: no reference" and not found.proven


def test_the_suite_proves_all_images_of_mnist() -> None:
    workloads = [each for each in catalog.suite("inference").workloads if each.model == "lenet"]
    assert {each.query_samples for each in workloads} == {10_000}


def test_an_answer_that_is_not_a_number_is_found_and_its_record_can_be_read(
    prove: Callable[..., Closing],
) -> None:
    logits = LOGITS.copy()
    logits[7, 0] = np.nan
    found = prove([*range(40)], logits)
    assert not found.proven and "relative error inf" in str(found.reason)
    assert (found.worst, found.share) == ({"logits": None}, None)
    of_record = record(parity=PROVEN.model_copy(update={"closing": found}))
    assert Record.model_validate_json(of_record.model_dump_json()) == of_record


def test_where_rounding_errors_explode_no_answer_is_proven(
    prove: Callable[..., Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Reference, "rounding_tolerances", lambda self, draws, rules: [{"logits": 1.0}]
    )
    found = prove([*range(40)], LOGITS + 0.01)
    assert not found.proven and "rounding errors explode" in str(found.reason)


def test_a_damaged_file_of_answers_proves_nothing(
    prove: Callable[..., Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "save", lambda path, values: path.write_bytes(b""))
    found = prove([0], LOGITS[:1])
    assert not found.proven and "answers_samples.npy: " in str(found.reason)
