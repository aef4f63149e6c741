import gc
import math
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.engines.base import Prepared
from suite.engines.venv.engine import VenvEngine
from suite.models import MODELS
from suite.parity import reference
from suite.parity.errors import relative_error
from suite.parity.prover import Prover
from suite.parity.reference import Reference
from suite.parity.tensors import ProofFailed, Tensors
from suite.parity.tolerances import RULES
from suite.parity.workers import LOWERINGS
from suite.protocol.plan import Plan
from suite.runner.frameworks import Frameworks
from tests.conftest import made_up, rest_in_verify
from tests.parity.replays import with_adam, with_batch_norm


def test_the_error_is_relative_and_bad_values_are_infinite() -> None:
    expected = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.5]), expected) == pytest.approx(0.1)
    assert relative_error(np.array([3.0, math.nan]), expected) == math.inf
    assert relative_error(np.array([3.0]), expected) == math.inf
    assert relative_error(expected, np.array([3.0, math.nan])) == math.inf
    assert relative_error(np.array([0.5]), np.array([0.0])) == 0.5


def test_tolerances_come_from_the_rounding_and_from_perturbed_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`off` is the error of each run in its one tensor, whose float64 value is 1."""
    off = {("pytorch", "float32", 0): 1e-6, ("jax", "float32", 0): 3e-6}
    off |= {("pytorch", "float64", 1): 2e-6, ("pytorch", "float64", 2): 1e-3}
    off |= {("pytorch", "bf16_simulated", 0): 7e-3, ("jax", "bf16_simulated", 0): 5e-3}
    off |= {("pytorch", "bf16_simulated", 1): 6e-3}

    def cached(
        self: Reference, which: tuple[str, str], precision: str, draw: int = 0
    ) -> list[Tensors]:
        return [{"logits": np.array([1 + off.get((which[0], precision, draw), 0.0)])}]

    monkeypatch.setattr(Reference, "_cached", cached)
    prover: Any = SimpleNamespace(engine=VenvEngine(), at_once=lambda trial: 1)
    found = Reference(prover=prover, trial=None, key="")  # type: ignore[arg-type]
    float32 = RULES["float32"]
    assert found.rounding_tolerances(1, float32) == [{"logits": pytest.approx(10 * 1e-6)}]
    assert found.rounding_tolerances(2, float32) == [{"logits": pytest.approx(2 * 1e-3)}]
    bfloat16 = RULES["bf16_mixed"]
    assert found.rounding_errors(bfloat16) == [{"logits": pytest.approx(5e-3)}]
    assert found.rounding_tolerances(1, bfloat16) == [{"logits": pytest.approx(3 * 6e-3)}]


def test_weights_are_perturbed_more_where_a_batch_norm_sums_many_values(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """By 20 units in the last place, or by the square root of the number of summed values."""
    trial = quick("pytorch").trials[0]
    of_lenet = made_up(trial.workload, tmp_path / "made")
    for model, ulps in (("lenet", 20), ("resnet50", math.sqrt(64) * 112)):
        inputs = replace(of_lenet, architecture=MODELS[model]())
        prover = Prover(
            engine=VenvEngine(),
            prepared={},
            inputs=inputs,
            steps=1,
            work_dir=tmp_path,
            notify=print,
        )
        perturbed = np.load(Reference(prover=prover, trial=trial, key="").perturbed(1).weights)
        weights = np.load(inputs.weights)
        shares = np.abs(perturbed / np.where(weights, weights, 1) - 1)[weights != 0]
        assert 0.99 * ulps < shares.max() / np.finfo(np.float32).eps < ulps + 1


def test_a_damaged_file_in_the_cache_is_computed_again(tmp_path: Path) -> None:
    path, tensors = tmp_path / "reference.npz", [{"logits": np.ones(3)}, {"loss": np.ones(())}]
    reference._write(path, tensors)
    again = reference._read(path, steps=2)
    assert again is not None and [step.keys() for step in again] == [{"logits"}, {"loss"}]
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"text"):
        path.write_bytes(damaged)
        assert reference._read(path, steps=2) is None


def test_a_failure_is_not_tried_again_for_the_next_trial(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    broken = Prepared(framework="pytorch", lock_sha256="", python=Path("/bin/false"))
    messages: list[str] = []
    prover = Prover(
        engine=VenvEngine(),
        prepared={"pytorch": broken, "jax": broken},
        inputs=made_up(trial.workload, tmp_path / "made"),
        steps=1,
        work_dir=tmp_path,
        notify=messages.append,
    )
    found = Reference(prover=prover, trial=trial, key=uuid.uuid4().hex)
    for _ in range(2):
        with pytest.raises(ProofFailed, match="exited with code 1"):
            _ = found.tensors
        with pytest.raises(ProofFailed, match="exited with code 1"):
            found.from_perturbed("float64", 2)
    assert len(messages) == 3  # two lowerings, and both draws in one worker


def test_a_worker_past_the_deadline_of_proofs_is_stopped(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    trial = replace(quick("pytorch").trials[0], proof_deadline_s=0.3)
    prover = Prover(
        engine=VenvEngine(),
        prepared={"pytorch": Prepared(framework="pytorch", lock_sha256="", python=python)},
        inputs=made_up(trial.workload, tmp_path / "made"),
        steps=1,
        work_dir=tmp_path,
        notify=print,
    )
    with pytest.raises(ProofFailed, match=r"not finished after 0\.3 s"):
        prover.run(trial, "float32", role="framework", mode="parity")


@pytest.mark.parametrize("precision", rest_in_verify("bf16_simulated", "float64"))
def test_one_worker_computes_the_same_from_each_draw_as_a_worker_of_its_own(
    precision: str, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """Statistics of batch norm, the slots of Adam and its count of steps start again."""
    trial = with_adam(quick("pytorch").trials[0])
    inputs = with_batch_norm(trial, tmp_path)
    engine = VenvEngine()
    prover = Prover(
        engine=engine,
        prepared=Frameworks(engine, print).with_reference(),
        inputs=inputs,
        steps=3,
        work_dir=tmp_path / "work",
        notify=print,
    )
    prover.work_dir.mkdir()
    found = Reference(prover=prover, trial=trial, key=uuid.uuid4().hex)
    together = found.from_perturbed(precision, 2)
    alone = found.computed(LOWERINGS[0], precision, 2)
    for step, expected in zip(together[1], alone, strict=True):
        assert step.keys() == expected.keys()
        assert all(np.array_equal(step[name], expected[name]) for name in expected)
    assert not np.array_equal(together[0][2]["logits"], together[1][2]["logits"])


def test_threads_can_read_references_at_once(tmp_path: Path) -> None:
    """Without a lock, CPython 3.11 raises SystemError (python/cpython#106905).

    That takes a switch of threads while a header is parsed, here in the callback of a
    collection: without the lock, about half of these tests fail.
    """
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    paths = [tmp_path / f"{number}.npz" for number in range(2)]
    for path in paths:
        reference._write(path, [{f"weights {name}": np.ones(2) for name in range(40)}])

    def callback(*_: object) -> None: ...

    gc.callbacks.append(callback)
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda path: reference._read(path, steps=1), paths * 60))
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)
    assert all(tensors and len(tensors[0]) == 40 for tensors in found)
