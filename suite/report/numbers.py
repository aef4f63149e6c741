"""How tables write numbers and unknown values."""

from __future__ import annotations

UNKNOWN = "-"


def yes_no(value: bool) -> str:
    """`yes` or `no`."""
    return "yes" if value else "no"


def rate_of(samples_per_s: float | None) -> str:
    """Samples per second as a whole number, or with three digits below a hundred."""
    slow = samples_per_s is not None and samples_per_s < 99.5
    return number(samples_per_s, "{:.3g}" if slow else "{:,.0f}")


def number(value: float | None, form: str) -> str:
    """The value in this form; a dash where it is unknown."""
    return UNKNOWN if value is None else form.format(value)
