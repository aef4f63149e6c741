"""Whether errors beside the reference show the same work: tolerances and chaos.

The rules and their reasons are in docs/method.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from suite.reference import MOVES, Errors, Reference

TOLERANCE = 1e-4  # relative L2 error of float32 tensors
LOST = 1e-2  # where the logits' tolerance grows beyond this, training is chaotic: nothing is shown
BY_GRADIENT = ("gradients", "weights", "updates")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The errors of the steps that can be judged, and for each step the tolerances raised."""

    errors: Errors
    raised: Errors


def judged(errors: Errors, reference: Reference) -> Judged:
    """Judge the errors: where the common tolerance is not enough, ask what float32 itself loses.

    It is asked with one draw of moved weights, and where that does not explain the errors with
    all draws.
    """
    found = Judged(errors=errors, raised=[])
    for moves in (1, MOVES):
        if errors and verdict(found.errors, found.raised) is None:
            break
        found = _judged(errors, reference.float32_tolerances(moves))
    return found


def _judged(errors: Errors, float32: Errors) -> Judged:
    """With a tensor's tolerance raised where float32 itself loses more of it.

    Steps from which on it loses the logits show nothing and are left out. What gradients lose is
    the most that they lose in any step: in which of them an activation falls on the other side of
    a kink is chance.
    """
    lost = [step["logits"] > LOST for step in float32]
    known = float32[: lost.index(True) if True in lost else len(lost)]
    most = {name: max(step[name] for step in known) for name in (known[0] if known else ())}
    raised = [
        {
            name: tolerance
            for name, own in step.items()
            if (tolerance := most[name] if name.startswith(BY_GRADIENT) else own) > TOLERANCE
        }
        for step in known
    ]
    return Judged(errors=errors[: len(raised)], raised=raised)


def verdict(errors: Errors, raised: Errors) -> str | None:
    """Which tensor first goes beyond its tolerance, and by how much; None where none does."""
    if not errors:
        return "float32 itself loses the logits in the first step: nothing can be shown"
    for step, tensors in enumerate(errors):
        for name, error in tensors.items():
            tolerance = _tolerance(raised, step, name)
            if not error <= tolerance:
                return f"step {step}: {name} is off by {error:.1e}, more than {tolerance:.0e}"
    return None


def share(errors: Errors, raised: Errors) -> float:
    """The largest error as a share of its tolerance: at most 1 where all is proven."""
    shares = [
        error / _tolerance(raised, step, name)
        for step, tensors in enumerate(errors)
        for name, error in tensors.items()
    ]
    return max(shares, default=0.0)


def _tolerance(raised: Errors, step: int, name: str) -> float:
    return raised[step].get(name, TOLERANCE) if raised else TOLERANCE


def worst(errors: Errors) -> dict[str, float]:
    """The largest error over all steps of each quantity: logits, loss, gradients, ..."""
    found: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            found[quantity] = max(error, found.get(quantity, 0.0))
    return found
