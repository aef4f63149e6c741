"""The proof of a timed run of inference: random answers of its queries, against the reference.

LoadGen draws the answers during the timed queries, as MLPerf's compliance test TEST01 does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.messages import Notify
from suite.parity.conclusion import concluded
from suite.parity.errors import relative_error
from suite.parity.keys import reference_of
from suite.parity.prover import Prover
from suite.parity.tensors import ProofFailed, load
from suite.parity.tolerances import judge, rules_of
from suite.protocol.plan import Trial
from suite.results.record import Closing
from suite.worker.proof import CLOSING

Ready = Callable[[], tuple[Engine, dict[str, Prepared]]]


def prove(
    reference: Ready,
    trial: Trial,
    inputs: Inputs,
    results: Path,
    *,
    work_dir: Path,
    notify: Notify,
) -> Closing:
    """Judge the answers that a worker wrote to `results/closing/` (docs/reference/protocol.md).

    `reference` returns the reference's engine and frameworks, or raises ProofFailed.
    """
    started_s = time.monotonic()
    closing = Closing(proven=False, step=0, answers=0)
    try:
        samples, logits = _saved(results / CLOSING)
        engine, prepared = reference()
        with tempfile.TemporaryDirectory(prefix="answers-", dir=work_dir) as folder:
            prover = Prover(
                engine=engine,
                prepared=prepared,
                inputs=inputs,
                steps=1,
                work_dir=Path(folder),
                notify=notify,
            )
            computed = reference_of(prover, trial)
            rules = rules_of(trial)
            expected = computed.tensors[0]["logits"]
            if samples.max() >= len(expected):
                raise ProofFailed(f"an answer is for sample {samples.max()} of {len(expected)}")
            errors = [{"logits": relative_error(logits, expected[samples])}]
            found = judge(errors, lambda draws: computed.rounding_tolerances(draws, rules), rules)
    except ProofFailed as error:
        return closing.model_copy(update={"reason": f"closing proof: {error}"})
    problem = found.excess(0) if found.errors else found.verdict
    reason = f"closing proof of {len(samples)} answers: {problem}" if problem else None
    closing = closing.model_copy(update={"answers": len(samples)})
    return concluded(closing, found, reason, time.monotonic() - started_s)


def _saved(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The sample numbers and the logits of the answers; ProofFailed where there are none."""
    samples, logits = load(folder / "answers_samples.npy"), load(folder / "answers_logits.npy")
    if samples.ndim != 1 or not samples.size or logits.shape[:1] != samples.shape:
        raise ProofFailed(f"{samples.size} sample numbers, and answers of shape {logits.shape}")
    if (samples < 0).any() or (samples % 1).any():
        raise ProofFailed("the sample numbers are not whole numbers from 0")
    return samples.astype(int), logits
