"""A framework on a CPU whose only threads are those of a BLAS."""

from __future__ import annotations

from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from .protocol import Trial


def limit_threads(trial: Trial) -> None:
    """Give matrix products the trial's number of threads, where it has one."""
    if trial.threads is not None:
        threadpool_limits(trial.threads)


def describe(trial: Trial, policy: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The settings in force, read back: the BLAS, with these of its fields, and the `policy`."""
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    shown = ("internal_api", "version", *fields)
    names = {" ".join(str(each.get(field, "")) for field in shown) for each in libraries}
    return {
        "name": trial.device,
        "threads": max(each["num_threads"] for each in libraries),
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {**policy, "blas": sorted(names)},
    }
