"""Steps of a timed run, done again by the reference from the state that the run saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.parity.errors import Errors, compare, rounding_of_zero, times
from suite.parity.prover import Prover
from suite.parity.reference import Reference, stored, with_zeros
from suite.parity.tensors import OUTCOME, Tensors, initial, read
from suite.parity.tolerances import Rules
from suite.parity.workers import LOWERINGS
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Start
from suite.worker.proof import perturbed_weights

PERTURBED = 0.01  # the relative change of a value by perturbed weights, at most


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
        return self.inputs.starting_from(weights) if weights.exists() else self.inputs


@dataclass(frozen=True, kw_only=True)
class StateReference(Reference):
    """The reference from the state of one run. It serves that run only, so nothing is cached.

    Its float64 values come from the first lowering alone: the certificate shows that both agree on
    the model, and a second one would double the duration of the closing proof.
    """

    @cached_property
    def tensors(self) -> list[Tensors]:
        first, *others = self._from_state
        # The rounding of small values from perturbed weights is another one; a value is the same.
        zeros = rounding_of_zero(first, others[0], PERTURBED) if others else []
        return with_zeros([first], [zeros])

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
        self._put_beside_state(1, "float64")

    def _put_beside_state(self, draw: int, precision: str) -> None:
        """Write the perturbed weights of a draw where a worker in mode replay looks for them."""
        path = perturbed_weights(self._replay.start.state, draw)
        self.perturbed(draw, precision).weights.replace(path)

    def rounding_tolerances(self, draws: int, rules: Rules) -> Errors:
        """As for a certificate, but with one draw the perturbed weights alone decide on float32.

        Float32 in both lowerings would take two more workers, one of which compiles. This tolerance
        has fewer parts than that of a certificate, so it is never wider.
        """
        if draws > 1 or rules.rounding != "float32":
            return super().rounding_tolerances(draws, rules)
        perturbed = self._from_state[1:] or self._cached(LOWERINGS[0], "float64", 1)
        return times(rules.perturbed_margin, compare(perturbed, self.tensors))

    def _compute_together(self, precision: str, draws: Sequence[int]) -> None:
        """One worker replays the steps from all draws, whose weights lie beside the state."""
        first = LOWERINGS[0]
        for draw in draws:
            self._put_beside_state(draw, precision)
        start = replace(self._replay.start, draws=draws[-1] + 1)
        role = f"perturbed{draws[0]}to{draws[-1]}"
        replay = replace(self._replay, start=start)
        found = replay.tensors(self._lowered(first), precision, role=role)
        for draw in draws:
            self._store(first, precision, draw, [found[draw]])

    def rounded(self, rules: Rules) -> list[list[Tensors]]:
        """In the first lowering alone, as the float64 values."""
        return [self._cached(LOWERINGS[0], rules.rounding)]

    def storage_tolerances(self, expected: list[Tensors]) -> Errors:
        """As for a certificate; `expected` are outcomes of all steps."""
        before = initial(self.prover.inputs)
        return [stored(outcome, before, self.prover.steps) for outcome in expected]

    def _cached(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        found = self._stored(which, precision, draw)
        if found is None:
            single = replace(self._replay, start=replace(self._replay.start, draws=1))
            found = replace(self, prover=single).computed(which, precision, draw)
            self._store(which, precision, draw, found)
        return found

    def _stored(self, which: tuple[str, str], precision: str, draw: int) -> list[Tensors] | None:
        return self._known.get(self._path(which, precision, draw))

    def _store(
        self, which: tuple[str, str], precision: str, draw: int, tensors: list[Tensors]
    ) -> None:
        self._known[self._path(which, precision, draw)] = tensors

    def _path(self, which: tuple[str, str], precision: str, draw: int) -> Path:
        """A name: nothing is written."""
        return Path(f"{which[0]}-{precision}-{draw}")

    @property
    def _replay(self) -> Replay:
        assert isinstance(self.prover, Replay)
        return self.prover
