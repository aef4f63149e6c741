"""Whether errors beside the reference show the same work: tolerances, chaos and kinks.

The rules and their reasons are in docs/method.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from suite.reference import MOVES, Errors, Reference

TOLERANCE = 1e-4  # relative L2 error of float32 tensors
LOST = 1e-2  # where the logits' tolerance grows beyond this, training is chaotic: nothing is shown
# A gradient jumps where rounding moves an activation over a ReLU's kink, or makes another the
# largest of a pool. No fault comes and goes like that, or is in so few places.
KINK = 1e-2
KINK_STEPS = 2  # of ten
KINK_SHARE = 0.05  # of the parameters
GRADIENT = "gradients"
BY_GRADIENT = (GRADIENT, "weights", "updates")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The errors of the steps that can be judged, and for each step the tolerances raised."""

    errors: Errors
    raised: Errors
    kinks: int  # steps in which gradients jumped at a kink, which is forgiven


def judged(errors: Errors, reference: Reference) -> Judged:
    """Judge the errors: where the common tolerance is not enough, ask what float32 itself loses.

    It is asked with one draw of moved weights, and where that does not explain the errors with
    all draws.
    """
    found = Judged(errors=errors, raised=[], kinks=0)
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
    errors = errors[: len(raised)]
    kinks = _kinks(errors, raised)
    steps = {step for step, _ in kinks}
    if len(steps) > KINK_STEPS:
        kinks = _local(errors, raised)
    _forgive(kinks, raised)
    return Judged(errors=errors, raised=raised, kinks=len(steps))


def _kinks(errors: Errors, raised: Errors) -> set[tuple[int, str]]:
    """Steps and parameters whose gradient jumps beyond its tolerance, but not far."""
    return {
        (step, name) for step, quantity, name in _beyond(errors, raised) if quantity == GRADIENT
    }


def _local(errors: Errors, raised: Errors) -> set[tuple[int, str]]:
    """The parameters that are off, but not far, in all steps; none where they are many."""
    names = {name for _, _, name in _beyond(errors, raised)}
    parameters = sum(name.startswith(GRADIENT) for name in (errors[0] if errors else ()))
    if len(names) > KINK_SHARE * parameters:
        return set()
    return {(step, name) for name in names for step in range(len(errors))}


def _beyond(errors: Errors, raised: Errors) -> Iterator[tuple[int, str, str]]:
    """Step, quantity and parameter of what gradients govern and is off by no more than a kink."""
    for step, tensors in enumerate(errors):
        for name, error in tensors.items():
            quantity, _, parameter = name.partition(" ")
            if quantity in BY_GRADIENT and _tolerance(raised, step, name) < error <= KINK:
                yield step, quantity, parameter


def _forgive(kinks: set[tuple[int, str]], raised: Errors) -> None:
    """Raise the tolerance of what jumped, and of its weights and updates from there on."""

    def raise_(step: int, quantity: str, parameter: str) -> None:
        name = f"{quantity} {parameter}"
        raised[step][name] = max(KINK, raised[step].get(name, KINK))

    for step, parameter in kinks:
        raise_(step, GRADIENT, parameter)
        for later in range(step, len(raised)):
            raise_(later, "weights", parameter)
            raise_(later, "updates", parameter)


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
