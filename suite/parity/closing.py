"""The closing proof: the last steps of a timed run compared with the reference.

After the last timed block the worker saves its state and does one or two more calls of the
function that was timed. The reference's first lowering does the same steps in float64 from that
state. The rules and their reasons are in docs/proofs.md.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.messages import Notify
from suite.parity.conclusion import concluded
from suite.parity.prover import Prover
from suite.parity.reference import Reference, compare, compare_ranks, times
from suite.parity.tensors import OUTCOME, ProofFailed, Tensors, initial, read, read_ranks
from suite.parity.tolerances import Errors, Judged, Rules, in_bfloat16, judge, rules_of
from suite.parity.workers import LOWERINGS
from suite.protocol.events import Event
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Start
from suite.results.record import Closing
from suite.worker import ranks
from suite.worker.proof import CLOSING, perturbed_weights

# Relative error (root mean square) of storing a value in float32: at most half a unit in the last
# place, uniformly distributed (2^-24 / sqrt(3)).
STORAGE_ERROR = 2.0**-24 / 3**0.5
STORAGE_MARGIN = 10
VISIBLE = 0.5  # an update whose tolerance exceeds this share of it is hidden by rounding
DRAWS = 8  # of dropout masks
# A run may be so many times as far from the draws' mean as the farthest of them: a tensor, or a
# single value, whose distance varies more. Of eight normal draws, one value in 40,000 is farther.
DRAW_MARGIN = 3
VALUE_MARGIN = 6
# Without its masks, a step would be the one without dropout. The run is at least this share as far
# from that as the nearest draw, in the median of its tensors.
MASKED_SHARE = 0.5
DRAW_LENGTH = 2  # and at most twice as long as the longest draw, or half as long as the shortest


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
        """The float64 outcome from the state, and from its perturbed weights if there are any."""
        return self.computed(LOWERINGS[0], "float64")

    def masked(self, precision: str) -> list[Tensors]:
        """The outcome of the steps with each draw of dropout masks, in the first lowering."""
        path = Path(f"masked-{precision}")
        if path not in self._known:
            self._known[path] = self.computed(LOWERINGS[0], precision)
        return self._known[path]

    def without_dropout(self, precision: str) -> Tensors:
        """The outcome of the steps without dropout, in the first lowering."""
        prover = self._replay
        model = prover.inputs.architecture.without("dropout")
        inputs = replace(prover.inputs, architecture=model)
        start = replace(prover.start, draws=1)
        work_dir = prover.work_dir / "without-dropout"  # its workers have the same names
        work_dir.mkdir()
        other = replace(prover, inputs=inputs, start=start, work_dir=work_dir)
        plain = replace(self, prover=other)
        return plain.computed(LOWERINGS[0], precision)[0]

    def perturb(self) -> None:
        """Write perturbed weights beside the state: the worker replays them in the same process."""
        self.perturbed(1).weights.replace(perturbed_weights(self._replay.start.state, 1))

    def rounding_tolerances(self, draws: int, rules: Rules) -> Errors:
        """As for a certificate, but with one draw the perturbed weights alone decide on float32.

        Float32 in both lowerings would take two more workers, one of which compiles. This tolerance
        has fewer parts than that of a certificate, so it is never wider.
        """
        if draws > 1 or rules.rounding != "float32":
            return super().rounding_tolerances(draws, rules)
        perturbed = self._from_state[1:] or self._cached(LOWERINGS[0], "float64", 1)
        return times(rules.perturbed_margin, compare(perturbed, self.tensors))

    def rounding_errors(self, rules: Rules) -> Errors:
        """Of the first lowering alone, as the float64 values."""
        return compare(self._cached(LOWERINGS[0], rules.rounding), self.tensors)

    def _cached(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        path = Path(f"{which[0]}-{precision}-{draw}")
        if path not in self._known:
            single = replace(self._replay, start=replace(self._replay.start, draws=1))
            self._known[path] = replace(self, prover=single).computed(which, precision, draw)
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
    work_dir: Path,
    notify: Notify,
) -> Closing:
    """Judge the closing proof that a worker wrote to `results` and reported in `event`.

    `prepared` must contain the reference's frameworks.
    """
    started_s = time.monotonic()
    state = results / CLOSING
    kinds = {layer.kind for layer in inputs.architecture.leaves()}
    dropout = "dropout" in kinds
    # With batch norms, updates nearly always need the tolerance of float32.
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
    notify(f"comparing the last steps of {trial.configuration} on {trial.workload.model}")
    try:
        with tempfile.TemporaryDirectory(prefix="closing-", dir=work_dir) as folder:
            prover = Replay(
                engine=engine,
                prepared=prepared,
                inputs=replace(inputs, weights=state / "weights.npy"),
                steps=start.steps,
                work_dir=Path(folder),
                notify=notify,
                start=start,
            )
            folders = [ranks.folder(results, rank) / CLOSING for rank in range(trial.devices.ranks)]
            found = read_ranks(folders, "after", OUTCOME, prover.inputs)
            reference = StateReference(prover=prover, trial=trial, key="")
            if perturbs:
                reference.perturb()
            compared = _with_draws if dropout else _with_reference
            judgement = compared(found, reference, rules_of(trial))
            reason = judgement.excess(0) or (
                _unmasked(found, reference) if dropout else _hidden(judgement)
            )
    except ProofFailed as error:
        return closing.model_copy(update={"reason": f"closing proof: {error}"})
    if reason is None and rules_of(trial).two_sided:
        reason = _stored_in_bfloat16(state)
    reason = f"closing proof at step {start.first_step}: {reason}" if reason else None
    return concluded(closing, judgement, reason, time.monotonic() - started_s)


def _with_reference(found: list[Tensors], reference: StateReference, rules: Rules) -> Judged:
    """Judge by the rules of the certificate. An update is the difference of two stored weights."""
    expected = reference.tensors
    least = _stored(reference, expected[0])
    raised = {name: value for name, value in least.items() if value > rules.tolerance}
    return judge(
        compare_ranks([[of_rank] for of_rank in found], expected),
        lambda draws: reference.rounding_tolerances(draws, rules),
        rules,
        least=[raised],
    )


def _stored(reference: StateReference, expected: Tensors) -> dict[str, float]:
    """The tolerance of each update, because weights are stored in float32 after each step."""
    tolerances = {}
    for name, before in initial(reference.prover.inputs).items():
        update = np.linalg.norm(expected[f"updates {name}"])
        error = STORAGE_ERROR * np.linalg.norm(before) * reference.prover.steps**0.5
        tolerances[f"updates {name}"] = (
            float(STORAGE_MARGIN * error / update) if update else float("inf")
        )
    return tolerances


def _with_draws(found: list[Tensors], reference: StateReference, rules: Rules) -> Judged:
    """Judge a model with dropout, whose masks are random: no two steps are equal.

    The run's step is compared with several steps of the reference with other masks. It must not be
    much farther from their mean than the farthest of them, and be of similar length.
    """
    draws = reference.masked(rules.rounding)
    stored = _stored(reference, draws[0])
    errors: dict[str, float] = {}
    raised: dict[str, float] = {}
    for name, value in (each for of_rank in found for each in of_rank.items()):
        each = np.stack([draw[name].ravel() for draw in draws])  # (draws, values)
        center = each.mean(axis=0)
        scale = float(np.linalg.norm(center)) or 1.0
        error = float(np.linalg.norm(value.ravel() - center)) / scale
        # A draw is n / (n - 1) times as far from the mean of the others as from the mean of all n.
        farthest = float(np.linalg.norm(each - center, axis=1).max())
        spread = farthest * len(draws) / (len(draws) - 1) / scale
        error = error if _as_long(value, each) else float("inf")
        errors[name] = max(error, errors.get(name, 0.0))  # of the worst rank
        margin = DRAW_MARGIN if value.size > 1 else VALUE_MARGIN
        raised[name] = max(rules.tolerance, margin * spread, stored.get(name, 0.0))
    return Judged(errors=[errors], raised=[raised], tolerance=rules.tolerance)


def _unmasked(found: list[Tensors], reference: StateReference) -> str | None:
    """Why a step was done without the masks of dropout; None where it was not."""
    precision = rules_of(reference.trial).rounding
    draws, plain = reference.masked(precision), reference.without_dropout(precision)
    shares = [
        float(np.linalg.norm(of_rank[name] - plain[name]))
        / min(float(np.linalg.norm(draw[name] - plain[name])) for draw in draws)
        for of_rank in found
        for name in plain
        if name.startswith("updates") and plain[name].size > 1
    ]
    if not shares or np.median(shares) >= MASKED_SHARE:
        return None
    return f"the updates are {np.median(shares):.2f} as far from those without dropout as a draw's"


def _stored_in_bfloat16(state: Path) -> str | None:
    """The slot of the optimizer, or the statistics, that is kept in bfloat16; None: none is."""
    for path in (*sorted(state.glob("optimizer_*.npy")), state / "statistics.npy"):
        values = np.load(path)
        if np.any(values) and in_bfloat16(values):
            return f"all values of {path.stem} are bfloat16 numbers: it is not kept in float32"
    return None


def _as_long(value: np.ndarray, draws: np.ndarray) -> bool:
    """Whether a tensor has a length (L2 norm) similar to those of the draws."""
    length, lengths = np.linalg.norm(value), np.linalg.norm(draws, axis=1)
    return bool(lengths.min() / DRAW_LENGTH <= length <= lengths.max() * DRAW_LENGTH)


def _hidden(judgement: Judged) -> str | None:
    """Why the updates prove nothing; None where one is larger than the rounding of float32."""
    tolerances: Errors = judgement.raised or [{}]
    updates = [name for name in judgement.errors[0] if name.startswith("updates")]
    if any(tolerances[0].get(name, 0.0) < VISIBLE for name in updates):
        return None
    return "training stands still: all updates are smaller than the rounding of the weights"
