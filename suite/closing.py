"""The closing proof: the last steps of a timed run beside the reference, from the same state.

The worker saves its state after the last timed block and does one or two more steps with the
function that was timed. The first of the reference's lowerings does the same steps in float64 from
that state. The rules and their reasons are in docs/method.md.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from suite.engines.base import Engine, Event, Prepared, Say
from suite.inputs import Inputs
from suite.judge import Judged, judged, worst
from suite.parity import tolerance_of
from suite.plan import Trial
from suite.records import Closing
from suite.reference import LOWERINGS, MARGIN, MOVED_MARGIN, Errors, Reference, compare, times
from suite.tensors import OUTCOME, ProofFailed, Prover, Tensors, initial, read
from suite.trial_file import Start
from suite.worker.proof import CLOSING, perturbed_weights

# Root mean square of what float32 loses when it stores a value, as a share of it: half a unit in
# the last place at most, evenly distributed (2^-24 / sqrt(3)).
STORED = 2.0**-24 / 3**0.5
SHOWN = 0.5  # an update whose tolerance is more than this share of it is hidden by rounding
DRAWS = 4  # of dropout masks
DRAW_MARGIN = 3  # times the farthest of the draws from the others: so far a framework may be
DRAW_LENGTH = 2  # times longer than the longest draw, or shorter than the shortest, at most


@dataclass(frozen=True, kw_only=True)
class Replay(Prover):
    """Runs workers in mode replay; `inputs.weights` are those of the state in `start`."""

    start: Start

    def tensors(self, trial: Trial, precision: str, *, role: str) -> list[Tensors]:
        """The outcome of the steps for each draw: of dropout masks, or of perturbed weights."""
        results = self.run(trial, precision, role=role, mode="replay", start=self.start)
        return [
            read(results, f"draw{draw:02d}", OUTCOME, self._inputs_of(draw))
            for draw in range(self.start.draws)
        ]

    def _inputs_of(self, draw: int) -> Inputs:
        weights = perturbed_weights(self.start.state, draw)
        return replace(self.inputs, weights=weights) if weights.exists() else self.inputs


@dataclass(frozen=True, kw_only=True)
class StateReference(Reference):
    """The reference from the state of one run. It serves that run only, so nothing is cached.

    Its float64 values come from the first lowering alone: the certificate shows that both agree on
    the model, and a second one would double the duration of the closing proof.
    """

    @property
    def tensors(self) -> list[Tensors]:
        return self._from_state[:1]

    @cached_property
    def _from_state(self) -> list[Tensors]:
        """The float64 outcome from the state, then from its perturbed weights, if there are any."""
        return self.computed(LOWERINGS[0], "float64")

    def perturb(self) -> Path:
        """Write perturbed weights beside the state: the worker replays them in the same process."""
        path = perturbed_weights(self._replay.start.state, 1)
        self.moved(1).weights.replace(path)
        return path

    def float32_tolerances(self, moves: int) -> Errors:
        """As for a certificate, but with one draw the perturbed weights alone decide.

        Float32 in both lowerings would take two more workers, one of which compiles. Less is added
        than for a certificate, so this tolerance is never the wider one.
        """
        if moves > 1:
            return super().float32_tolerances(moves)
        perturbed = self._from_state[1:] or self._cached(LOWERINGS[0], "float64", 1)
        return times(MOVED_MARGIN, compare(perturbed, self.tensors))

    def _cached(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        path = Path(f"{which[0]}-{precision}-{draw}")
        if path not in self._known:
            alone = replace(self._replay, start=replace(self._replay.start, draws=1))
            self._known[path] = replace(self, prover=alone).computed(which, precision, draw)
        return self._known[path]

    @property
    def _replay(self) -> Replay:
        assert isinstance(self.prover, Replay)
        return self.prover


def prove(
    engine: Engine,
    prepared: dict[str, Prepared],
    trial: Trial,
    inputs: Inputs,
    results: Path,
    event: Event,
    *,
    work: Path,
    say: Say,
) -> Closing:
    """Judge the closing proof that a worker left in `results` and told of in `event`.

    `prepared` must hold the reference's frameworks.
    """
    started_s = time.monotonic()
    state = results / CLOSING
    kinds = {layer.kind for layer in inputs.architecture.leaves()}
    dropout = "dropout" in kinds
    # The updates of a batch norm's layers nearly always need the float32 tolerance.
    perturbs = "batch_norm" in kinds and not dropout
    start = Start(
        state=state,
        first_step=event["step"],
        steps=event["steps"],
        draws=DRAWS if dropout else 2 if perturbs else 1,
    )
    closing = Closing(
        proven=False,
        step=start.first_step,
        steps=start.steps,
        draws=start.draws if dropout else 0,
    )
    say(f"proving the last steps of {trial.means} on {trial.workload.model}")
    try:
        with tempfile.TemporaryDirectory(prefix="closing-", dir=work) as place:
            prover = Replay(
                engine=engine,
                prepared=prepared,
                inputs=replace(inputs, weights=state / "weights.npy"),
                steps=start.steps,
                work=Path(place),
                say=say,
                start=start,
            )
            found = read(state, "after", OUTCOME, prover.inputs)
            reference = StateReference(prover=prover, trial=trial, key="")
            if perturbs:
                reference.perturb()
            judge = _beside_draws if dropout else _beside_reference
            judgement = judge(found, reference, tolerance_of(trial))
    except ProofFailed as error:
        return closing.model_copy(update={"reason": f"closing proof: {error}"})
    reason = judgement.excess(0) or (None if dropout else _hidden(judgement))
    return closing.model_copy(
        update={
            "proven": reason is None,
            "reason": f"closing proof at step {start.first_step}: {reason}" if reason else None,
            "worst": worst(judgement.errors),
            "share": judgement.share,
            "duration_s": time.monotonic() - started_s,
        }
    )


def _beside_reference(found: Tensors, reference: StateReference, tolerance: float) -> Judged:
    """By the rules of the certificate. An update is the difference of two stored weights."""
    expected = reference.tensors
    least = _stored(reference, expected[0])
    raised = {name: value for name, value in least.items() if value > tolerance}
    return judged(compare([found], expected), reference, tolerance, least=[raised])


def _stored(reference: StateReference, expected: Tensors) -> dict[str, float]:
    """What float32 loses of each update by storing the weight after each step, with the margin."""
    losses = {}
    for name, before in initial(reference.prover.inputs).items():
        update = np.linalg.norm(expected[f"updates {name}"])
        lost = STORED * np.linalg.norm(before) * reference.prover.steps**0.5
        losses[f"updates {name}"] = float(MARGIN * lost / update) if update else float("inf")
    return losses


def _beside_draws(found: Tensors, reference: StateReference, tolerance: float) -> Judged:
    """Where dropout draws masks at random, no two steps are alike: the run's must lie among
    several of the reference's, no farther from their mean than three times the farthest of them
    is from the mean of the others, and about as long.
    """
    draws = reference.computed(LOWERINGS[0], reference.trial.workload.precision)
    stored = _stored(reference, draws[0])
    errors, raised = {}, {}
    for name, value in found.items():
        each = np.stack([draw[name].ravel() for draw in draws])  # (draws, values)
        center = each.mean(axis=0)
        scale = float(np.linalg.norm(center)) or 1.0
        error = float(np.linalg.norm(value.ravel() - center)) / scale
        # A draw is n / (n - 1) times as far from the mean of the others as from the mean of all.
        farthest = float(np.linalg.norm(each - center, axis=1).max())
        spread = farthest * len(draws) / (len(draws) - 1) / scale
        errors[name] = error if _as_long(value, each) else float("inf")
        raised[name] = max(tolerance, DRAW_MARGIN * spread, stored.get(name, 0.0))
    return Judged(errors=[errors], raised=[raised], tolerance=tolerance)


def _as_long(value: np.ndarray, draws: np.ndarray) -> bool:
    length, lengths = np.linalg.norm(value), np.linalg.norm(draws, axis=1)
    return bool(lengths.min() / DRAW_LENGTH <= length <= lengths.max() * DRAW_LENGTH)


def _hidden(judgement: Judged) -> str | None:
    """Why the updates show nothing: all are so small that float32 cannot hold them."""
    tolerances: Errors = judgement.raised or [{}]
    updates = [name for name in judgement.errors[0] if name.startswith("updates")]
    if any(tolerances[0].get(name, 0.0) < SHOWN for name in updates):
        return None
    return "training has come to rest: all updates are lost in float32's rounding of the weights"
