"""JAX on a device, in plain float32: for its own module and Keras's."""

from __future__ import annotations

from typing import Any

import jax

from ..protocol import Trial


def prepare(trial: Trial) -> None:
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # even where it sees a GPU
    else:
        jax.devices("cuda")  # raises where there is none; where there is one it computes there
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32


def describe(trial: Trial) -> dict[str, Any]:
    # XLA takes as many threads as it finds CPUs, and does not tell: null.
    return {"name": trial.device, "threads": None, "kind": jax.devices()[0].device_kind}
