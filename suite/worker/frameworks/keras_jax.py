"""What Keras leaves to its user where JAX is its backend."""

from __future__ import annotations

from typing import Any

import jax

from ..protocol import Array, Trial

STATE = ("trainable_variables", "non_trainable_variables", "optimizer_variables")
STATE += ("metrics_variables",)


def device(trial: Trial) -> dict[str, Any]:
    # XLA takes as many threads as it finds CPUs, and does not tell: null.
    return {"threads": None, "kind": jax.devices()[0].device_kind}


def prepare(trial: Trial) -> None:
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # even where it sees a GPU
    else:
        jax.devices("cuda")  # raises where there is none; where there is one it computes there
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32


def put(inputs: Array, labels: Array) -> Any:
    return jax.device_put((inputs, labels))


def step(model: Any, batch: Any) -> dict[str, Any]:
    """As `fit` does: the state is taken out of the model's variables once, and goes from step to
    step until someone wants to see it in the model.
    """
    if model._jax_state_synced:
        wanted = dict.fromkeys(STATE, True)
        state = model._get_jax_state(**wanted, purge_model_variables=True)
        model._jax_state_synced = False
    else:
        state = tuple(model._jax_state.values())
    logs, state = model.train_function(state, iter((batch,)))
    model._jax_state = dict(zip(STATE, state))
    return logs


def settle(model: Any) -> None:
    """Put the state back into the model's variables."""
    model.jax_state_sync()
    model._jax_state = None


def synchronize(model: Any) -> None:
    jax.block_until_ready(model._jax_state)
