"""Whether errors beside the reference show the same work: tolerances and chaos.

The rules and their reasons are in docs/method.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from suite.reference import MOVES, Errors, Reference

# Relative L2 error of tensors, by what is multiplied: of TF32 about twenty roundings.
TOLERANCES = {"float32": 1e-4, "tf32": 1e-2}
LOST = 1e-2  # where the logits' tolerance grows beyond this, training is chaotic: nothing is shown
HOPELESS = 4  # times its tolerance by few draws: an error that all draws would not explain either
BY_GRADIENT = ("gradients", "weights", "updates")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The errors of the steps that can be judged, and for each step the tolerances raised."""

    errors: Errors
    raised: Errors
    tolerance: float

    @property
    def verdict(self) -> str | None:
        """Which tensor first goes beyond its tolerance, and by how much; None where none does."""
        if not self.errors:
            return "float32 itself loses the logits in the first step: nothing can be shown"
        for step in range(len(self.errors)):
            if excess := self.excess(step):
                return f"step {step}: {excess}"
        return None

    def excess(self, step: int) -> str | None:
        """Which tensor of a step first goes beyond its tolerance, and by how much."""
        for name, error in self.errors[step].items():
            tolerance = self._tolerance(step, name)
            if not error <= tolerance:
                return f"{name} is off by {error:.1e}, more than {tolerance:.0e}"
        return None

    @property
    def share(self) -> float:
        """The largest error as a share of its tolerance: at most 1 where all is proven."""
        shares = [
            error / self._tolerance(step, name)
            for step, tensors in enumerate(self.errors)
            for name, error in tensors.items()
        ]
        return max(shares, default=0.0)

    def _tolerance(self, step: int, name: str) -> float:
        return self.raised[step].get(name, self.tolerance) if self.raised else self.tolerance


def judged(
    errors: Errors, reference: Reference, tolerance: float, *, least: Errors | None = None
) -> Judged:
    """Judge the errors: where the common tolerance is not enough, ask what float32 itself loses.

    It is asked with one draw of moved weights, with more where that does not explain the errors,
    and with all draws only where little is missing. `least` has tensors that are known beforehand
    to need more than the common tolerance.
    """
    found = Judged(errors=errors, raised=least or [], tolerance=tolerance)
    for moves in MOVES:
        if errors and found.verdict is None:
            break
        if moves == MOVES[-1] and found.share > HOPELESS:
            break
        lost = reference.float32_tolerances(moves)
        if least:
            lost = [_largest(*both) for both in zip(lost, least, strict=True)]
        found = _judged(errors, lost, tolerance)
    return found


def _largest(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(value, other.get(name, 0.0)) for name, value in one.items()}


def _judged(errors: Errors, float32: Errors, tolerance: float) -> Judged:
    """With a tensor's tolerance raised where float32 itself loses more of it.

    Steps from which on it loses the logits show nothing and are left out. What gradients lose is
    the most that they lose in any step: in which of them an activation falls on the other side of
    a kink is chance.
    """
    # The closing proof compares no logits: it goes on from where the run is, however far that is.
    lost = [step.get("logits", 0.0) > LOST for step in float32]
    known = float32[: lost.index(True) if True in lost else len(lost)]
    most = {name: max(step[name] for step in known) for name in (known[0] if known else ())}
    raised = [
        {
            name: raised_to
            for name, own in step.items()
            if (raised_to := most[name] if name.startswith(BY_GRADIENT) else own) > tolerance
        }
        for step in known
    ]
    return Judged(errors=errors[: len(raised)], raised=raised, tolerance=tolerance)


def worst(errors: Errors) -> dict[str, float]:
    """The largest error over all steps of each quantity: logits, loss, gradients, ..."""
    found: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            found[quantity] = max(error, found.get(quantity, 0.0))
    return found
