"""The reference of a workload: float64 tensors on which two independent lowerings agree.

PyTorch and JAX compute it, on the CPU or on a GPU with fast float64 (runner/reference_device.py).
It is cached, and serves every framework and variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from suite.datasets.inputs import Inputs
from suite.engines.parallel import in_parallel
from suite.manifests.tracks import EQUAL
from suite.manifests.workloads import Workload
from suite.parity.errors import (
    Errors,
    combined,
    compare,
    disagreements,
    largest,
    rounding_of_zero,
    times,
    usual_norms,
)
from suite.parity.running_means import EPSILON, error_of_sum
from suite.parity.tensors import (
    PARSING,
    UNREADABLE,
    ProofFailed,
    ReferencesDisagree,
    Tensors,
    initial,
    load,
)
from suite.parity.tolerances import Rules
from suite.parity.workers import LOWERINGS, reference_settings
from suite.paths import home, replacing
from suite.protocol.plan import Trial

if TYPE_CHECKING:
    from suite.parity.prover import Prover

TOLERANCE = 1e-9  # between the two float64 lowerings
# Relative error (root mean square) of storing a value in float32: at most half a unit in the last
# place, uniformly distributed (2^-24 / sqrt(3)).
STORAGE_ERROR = 2.0**-24 / 3**0.5
STORAGE_MARGIN = 10
# Float32's own rounding acts like a perturbation of the weights by about 4 units in the last place
# (ulps); a perturbation by 20 ulps, its error doubled, stands for ten times that. A batch norm's
# mean is a long sum: a framework that adds n values one after the other has an error of
# sqrt(n) / 6 ulps (root mean square). Where sqrt(n) is more than 20, the perturbation is sqrt(n).
PERTURBATION_ULPS = 20
# Samples in a call of the reference of inference, which does not depend on how the queries arrive.
ANSWERS_BATCH_SIZE = 32
# About the rounding of a weight: each draw shows another case of that rounding.
PERTURBATIONS = {"bf16_simulated": 2.0**-9, "tf32_simulated": 2.0**-11}
Lowered = tuple[tuple[str, str], str, int]  # framework and variant, precision, draw


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Computes and caches the reference of one workload."""

    prover: Prover
    trial: Trial  # any trial of the workload
    key: str  # digest of everything that the reference depends on
    fresh: bool = False  # ignore the cache
    _known: dict[Path, list[Tensors]] = field(default_factory=dict, init=False, repr=False)
    # What failed once is not tried again for the next trial: it may have taken an hour.
    _failed: dict[Path, ProofFailed] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def tensors(self) -> list[Tensors]:
        """The tensors of each step, up to the first step in which the two lowerings disagree.

        Raise ProofFailed where they cannot be computed, or disagree in the first step.
        """
        return self._agreed[0]

    @property
    def disagreement(self) -> float:
        """The largest relative error between the two lowerings in the steps on which they agree."""
        return self._agreed[1]

    @property
    def zeros(self) -> list[str]:
        """The tensors of the first step that hold only rounding; in `tensors` they are 0."""
        return self._agreed[2]

    def rounding_tolerances(self, draws: int, rules: Rules) -> Errors:
        """The relative error that a multiple of the rounding can cause, for each tensor.

        `rules` name the rounding and the multiple. In addition, the steps are computed `draws`
        times from randomly perturbed weights. That covers discontinuities: the side of a ReLU's
        kink on which an activation falls, or which of two values is the maximum of a pool.
        """
        found = times(rules.margin, self.rounding_errors(rules))
        for tensors in self.from_perturbed(rules.perturbed, draws):
            errors = compare(tensors, self.tensors)
            found = combined(max, found, times(rules.perturbed_margin, errors))
        return found

    def rounding_errors(self, rules: Rules) -> Errors:
        """The relative error of the rounding itself, for each tensor.

        Each lowering computes it; the smaller error of the two counts, so that a fault
        in one cannot widen a tolerance.
        """
        first, *others = (compare(each, self.tensors) for each in self.rounded(rules))
        return reduce(partial(combined, min), others, first)

    def rounded(self, rules: Rules) -> list[list[Tensors]]:
        """The tensors of each step with the rounding that the rules name, in each lowering."""
        return self._all([(which, rules.rounding, 0) for which in LOWERINGS])

    def from_perturbed(self, precision: str, draws: int) -> list[list[Tensors]]:
        """The tensors from each draw of perturbed weights, in the first lowering.

        Of small workloads one worker computes all that are not in the cache: its start takes most
        of the time.
        """
        first, wanted = LOWERINGS[0], range(1, draws + 1)
        if self._in_one_worker:
            missing = [draw for draw in wanted if self._is_missing(first, precision, draw)]
            if len(missing) > 1:
                self._compute_together(precision, missing)
        return self._all([(first, precision, draw) for draw in wanted])

    def storage_tolerances(self, expected: list[Tensors]) -> Errors:
        """The tolerance of each update, because weights are stored in float32 after each step.

        `expected` are the reference's tensors of each step.
        """
        before = initial(self.prover.inputs)
        return [stored(step, before, number) for number, step in enumerate(expected, 1)]

    def perturbed(self, draw: int, precision: str = "float64") -> Inputs:
        """The inputs with randomly perturbed weights, different ones in each draw."""
        inputs = self.prover.inputs
        weights = load(inputs.weights)
        largest = self._perturbation(precision)
        shares = np.random.default_rng(draw).uniform(-largest, largest, weights.size)
        path = self.prover.work_dir / f"perturbed{draw}-{precision}.npy"
        np.save(path, (weights * (1 + shares)).astype(np.float32))
        return inputs.starting_from(path)

    @cached_property
    def _agreed(self) -> tuple[list[Tensors], float, list[str]]:
        first, second = self._all([(which, "float64", 0) for which in LOWERINGS])
        zeros = [rounding_of_zero(*both, TOLERANCE) for both in zip(first, second, strict=True)]
        first, second = (with_zeros(each, zeros) for each in (first, second))
        found = [largest(step) for step in disagreements(second, first)]
        steps = next((n for n, (_, error) in enumerate(found) if error > TOLERANCE), len(found))
        if steps == 0:
            name, error = found[0]
            raise ReferencesDisagree(
                f"the two float64 references differ by {error:.1e} in {name} at the first step,"
                f" more than {TOLERANCE:.0e}"
            )
        return first[:steps], max(error for _, error in found[:steps]), zeros[0]

    @property
    def _in_one_worker(self) -> bool:
        return self.prover.at_once(self.trial) > 1 and self.trial.workload.scenario is None

    def _compute_together(self, precision: str, draws: Sequence[int]) -> None:
        """Compute the tensors from these draws of perturbed weights, and store them."""
        prover, first = self.prover, LOWERINGS[0]
        role = f"perturbed{draws[0]}to{draws[-1]}"
        numbers = f"{draws[0]} to {draws[-1]}"
        prover.notify(
            f"computing the reference in {first[0]}, {precision}, perturbed weights {numbers}"
        )
        weights = [self.perturbed(draw, precision).weights for draw in draws]
        try:
            found = prover.of_weights(self._lowered(first), precision, weights, role=role)
        except ProofFailed as error:
            self._failed.update({self._path(first, precision, draw): error for draw in draws})
            return
        for draw, tensors in zip(draws, found, strict=True):
            self._store(first, precision, draw, tensors)

    def _all(self, wanted: Sequence[Lowered]) -> list[list[Tensors]]:
        """The tensors of several lowerings, of small workloads in parallel; ProofFailed."""
        prover = self.prover
        at_once = prover.at_once(self.trial) if len(wanted) > 1 else 1
        tried = in_parallel(prover.engine, self._try, wanted, at_once=at_once)
        found = [each for each in tried if not isinstance(each, ProofFailed)]
        failed = (each for each in tried if isinstance(each, ProofFailed))
        if error := next(failed, None):
            raise error
        return found

    def _try(self, wanted: Lowered) -> list[Tensors] | ProofFailed:
        """One lowering. A failure is returned: raised, it would stop the engine."""
        try:
            return self._cached(*wanted)
        except ProofFailed as error:
            return error

    def _cached(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        """The tensors of one lowering, from the cache or computed now.

        It starts from the inputs' own weights (draw 0), or from perturbed ones (draws from 1).
        """
        found, path = self._stored(which, precision, draw), self._path(which, precision, draw)
        if found is not None:
            return found
        if path in self._failed:
            raise self._failed[path]
        which_weights = f", perturbed weights {draw}" if draw else ""
        self.prover.notify(f"computing the reference in {which[0]}, {precision}{which_weights}")
        try:
            found = self.computed(which, precision, draw)
        except ProofFailed as error:
            self._failed[path] = error
            raise
        self._store(which, precision, draw, found)
        return found

    def _is_missing(self, which: tuple[str, str], precision: str, draw: int) -> bool:
        """Whether a lowering is neither in the cache nor has failed."""
        known = self._stored(which, precision, draw) is not None
        return not known and self._path(which, precision, draw) not in self._failed

    def _stored(self, which: tuple[str, str], precision: str, draw: int) -> list[Tensors] | None:
        """The tensors of one lowering in the cache; None where there are none."""
        path = self._path(which, precision, draw)
        if path not in self._known and not self.fresh:
            found = _read(path, self.prover.steps)
            if found is not None:
                self._known[path] = found
        return self._known.get(path)

    def _store(
        self, which: tuple[str, str], precision: str, draw: int, tensors: list[Tensors]
    ) -> None:
        path = self._path(which, precision, draw)
        _write(path, tensors)
        self._known[path] = tensors

    def _path(self, which: tuple[str, str], precision: str, draw: int) -> Path:
        """The file in the cache."""
        name = f"{self.key[:16]}-{which[0]}-{precision}"
        if draw:
            name += f"-draw{draw}-perturbed{self._perturbation(precision):.1e}"
        return home() / "references" / f"{name}.npz"

    def computed(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        """The tensors of one lowering, computed now."""
        trial, prover = self._lowered(which), self.prover
        if draw:
            prover = replace(prover, inputs=self.perturbed(draw, precision))
        return prover.tensors(trial, precision, role=f"perturbed{draw}" if draw else "reference")

    def _lowered(self, which: tuple[str, str]) -> Trial:
        """The trial in one lowering, on one device."""
        framework, variant = which
        return replace(
            self.trial,
            workload=_of_reference(self.trial.workload),
            framework=framework,
            variant=variant,
            device=self.trial.reference,
            cpu_parts=1,
            batch_slices=self.trial.slices,
            track=EQUAL,
            runtime=reference_settings(framework, self.trial.reference),
        )

    def _perturbation(self, precision: str) -> float:
        """The largest perturbation of a weight, as a share of it."""
        if precision in PERTURBATIONS:
            return PERTURBATIONS[precision]
        workload, least = self.trial.workload, PERTURBATION_ULPS * EPSILON
        if workload.scenario is not None:  # batch norm then has no long sum
            return least
        return max(least, error_of_sum(self.prover.inputs.architecture, workload.micro_batch_size))


def _of_reference(workload: Workload) -> Workload:
    """The workload of the reference: of inference, the same for all scenarios and batch sizes."""
    if workload.scenario is None:
        return workload
    size = min(ANSWERS_BATCH_SIZE, workload.query_samples or 1)
    changes = {"scenario": "offline", "batch_size": size, "latency_bound_s": None}
    return workload.model_copy(update=changes)


def with_zeros(steps: list[Tensors], zeros: list[list[str]]) -> list[Tensors]:
    """The steps, in each of which the named tensors are 0."""
    return [
        step | {name: np.zeros_like(step[name]) for name in names}
        for step, names in zip(steps, zeros, strict=True)
    ]


def stored(expected: Tensors, before: Tensors, steps: int) -> dict[str, float]:
    """The tolerance of each update after so many steps from the weights `before`."""
    tolerances, usual = {}, usual_norms(expected)
    for name, weights in before.items():
        if (changes := expected.get(f"updates {name}")) is None:  # inference changes nothing
            continue
        update = np.linalg.norm(changes) or usual.get(f"updates {name}", 1.0)  # as in `compare`
        error = STORAGE_ERROR * np.linalg.norm(weights) * steps**0.5
        tolerances[f"updates {name}"] = float(STORAGE_MARGIN * error / update)
    return tolerances


def storage_errors(reference: Reference) -> dict[str, float]:
    """The error of each update of the first step because weights are stored in float32."""
    (tolerances,) = reference.storage_tolerances(reference.tensors[:1])
    return {name: tolerance / STORAGE_MARGIN for name, tolerance in tolerances.items()}


def _read(path: Path, steps: int) -> list[Tensors] | None:
    """The tensors in the file at `path`; None where it is missing or unreadable."""
    try:
        with PARSING, np.load(path) as file:
            named = {name: file[name] for name in file.files}
    except UNREADABLE:
        return None
    tensors: list[Tensors] = [{} for _ in range(steps)]
    for name, values in named.items():
        step, _, tensor = name.partition(" ")
        tensors[int(step)][tensor] = values
    return tensors


def _write(path: Path, tensors: list[Tensors]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {
        f"{number} {name}": values
        for number, step in enumerate(tensors)
        for name, values in step.items()
    }
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, **named)  # type: ignore[arg-type]
