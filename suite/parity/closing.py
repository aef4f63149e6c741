"""The closing proof: the last steps of a timed run compared with the reference.

After the last timed block the worker saves its state and does one or two more calls of the
function that was timed. The reference's first lowering does the same steps in float64 from that
state. The rules and their reasons are in docs/reference/proofs.md.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.messages import Notify
from suite.models.architecture import Architecture
from suite.parity import dropout
from suite.parity.conclusion import concluded
from suite.parity.errors import Errors, compare_ranks
from suite.parity.reference import storage_errors
from suite.parity.replay import Replay, StateReference
from suite.parity.scale import VISIBLE, wrong_scale
from suite.parity.tensors import OUTCOME, ProofFailed, Tensors, load, read_ranks
from suite.parity.tolerances import (
    Judged,
    Rules,
    judge,
    nearly_in_bfloat16,
    rules_of,
    too_accurate,
)
from suite.parity.workers import MASK_DRAWS
from suite.protocol.events import Event
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Start
from suite.results.record import Closing
from suite.worker import ranks
from suite.worker.proof import CLOSING


def prove(
    engine: Engine,
    prepared: dict[str, Prepared],
    trial: Trial,
    inputs: Inputs,
    results: Path,
    event: Event,
    *,
    work_dir: Path,
    notify: Notify,
) -> Closing:
    """Judge the closing proof that a worker wrote to `results` and reported in `event`.

    `prepared` must contain the reference's frameworks.
    """
    started_s = time.monotonic()
    start = _start(trial, inputs, results / CLOSING, event)
    closing = Closing(
        proven=False,
        step=start.first_step,
        steps=start.steps,
        draws=start.draws if _has(inputs, "dropout") else 0,
    )
    notify(f"comparing the last steps of {trial.configuration} on {trial.workload.model}")
    try:
        with tempfile.TemporaryDirectory(prefix="closing-", dir=work_dir) as folder:
            prover = Replay(
                engine=engine,
                prepared=prepared,
                inputs=replace(
                    inputs,
                    weights=start.state / "weights.npy",
                    averages=start.state / "optimizer_average.npy" if inputs.averages else None,
                ),
                steps=start.steps,
                work_dir=Path(folder),
                notify=notify,
                start=start,
            )
            judgement, reason = _judged(prover, trial, results)
    except ProofFailed as error:
        return closing.model_copy(update={"reason": f"closing proof: {error}"})
    reason = f"closing proof at step {start.first_step}: {reason}" if reason else None
    return concluded(closing, judgement, reason, time.monotonic() - started_s)


def _start(trial: Trial, inputs: Inputs, state: Path, event: Event) -> Start:
    """The steps that the reference does again: with dropout, once for each draw of masks.

    With batch norms, updates nearly always need the tolerance of float32: a second draw has
    perturbed weights.
    """
    draws = 1
    if _has(inputs, "dropout"):
        draws = MASK_DRAWS
    elif _has(inputs, "batch_norm") and rules_of(trial).rounding == "float32":
        draws = 2
    return Start(state=state, first_step=event["step"], steps=event["steps"], draws=draws)


def _has(inputs: Inputs, kind: str) -> bool:
    return any(layer.kind == kind for layer in inputs.architecture.leaves())


def _judged(prover: Replay, trial: Trial, results: Path) -> tuple[Judged, str | None]:
    """The worker's last steps judged, and why they are not proven."""
    rules, has_dropout = rules_of(trial), _has(prover.inputs, "dropout")
    folders = [ranks.folder(results, rank) / CLOSING for rank in range(trial.devices.ranks)]
    found = read_ranks(folders, "after", OUTCOME, prover.inputs)
    reference = StateReference(prover=prover, trial=trial, key="")
    if prover.start.draws > 1 and not has_dropout:
        reference.perturb()
    compared = dropout.with_draws if has_dropout else _with_reference
    judgement = compared(found, reference, rules)
    reason = judgement.excess(0)
    if reason is None and has_dropout:
        reason = dropout.unmasked(found, reference)
    elif reason is None:
        reason = _hidden(judgement) or _other_precision(judgement, reference, rules)
        reason = reason or wrong_scale(found, reference, rules)
    if reason is None and rules.two_sided:
        reason = _stored_in_bfloat16(prover.start.state, trial, prover.inputs.architecture)
    return judgement, reason


def _with_reference(found: list[Tensors], reference: StateReference, rules: Rules) -> Judged:
    """Judge by the rules of the certificate. An update is the difference of two stored weights."""
    return judge(
        compare_ranks([[of_rank] for of_rank in found], reference.tensors),
        lambda draws: reference.rounding_tolerances(draws, rules),
        rules,
        least=reference.storage_tolerances(reference.tensors),
    )


def _other_precision(judgement: Judged, reference: StateReference, rules: Rules) -> str | None:
    """Why the timed function does not compute in bfloat16; None where it does or need not.

    It may be another program than that of the certificate, as one of several steps in one call.
    """
    if not rules.two_sided:
        return None
    simulated = reference.rounding_errors(rules)[0]
    return too_accurate(judgement.errors[0], simulated, storage_errors(reference))


def _stored_in_bfloat16(state: Path, trial: Trial, architecture: Architecture) -> str | None:
    """The slot of the optimizer, or the statistics, that is kept in bfloat16; None: none is.

    Of the statistics the means count: PyTorch multiplies variances by n / (n - 1). Keras keeps the
    velocity times the learning rate.
    """
    optimizer = trial.workload.optimizer
    rate = optimizer.learning_rate if optimizer else 1.0
    found = [(path.stem, load(path) * f) for path in _slots(state) for f in (1.0, rate)]
    means = _means(load(state / "statistics.npy"), architecture)
    for name, values in (*found, ("the means of batch norms", means)):
        if np.any(values) and nearly_in_bfloat16(values):
            return f"all values of {name} are bfloat16 numbers: not kept in float32"
    return None


def _slots(state: Path) -> list[Path]:
    """The files of the optimizer's slots."""
    return sorted(state.glob("optimizer_*.npy"))


def _means(statistics: np.ndarray, architecture: Architecture) -> np.ndarray:
    """The running means among the statistics of all batch norms."""
    parts = architecture.statistics()
    is_mean = [np.full(part.size, part.name.endswith(".mean")) for part in parts]
    return statistics[np.concatenate(is_mean)] if parts else statistics


def _hidden(judgement: Judged) -> str | None:
    """Why the updates prove nothing; None where one is larger than the rounding of float32."""
    tolerances: Errors = judgement.raised or [{}]
    updates = [name for name in judgement.errors[0] if name.startswith("updates")]
    if any(tolerances[0].get(name, 0.0) < VISIBLE for name in updates):
        return None
    return "training stands still: all updates are smaller than the rounding of the weights"
