"""JAX's ranks: one program over a mesh of the devices of all processes.

Batches are sharded. Every device has the model and the optimizer, and running statistics of its
own, and computes its shard by `jax.shard_map`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...protocol import Array, Trial

AXIS = "ranks"
ALL = PartitionSpec()  # of a value on every device


def join(trial: Trial) -> None:
    """Meet the other ranks. JAX must not have used a device before."""
    if trial.device == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(trial.addresses[0], trial.world_size, trial.rank)


class Ranks:
    """Places values on the devices of all ranks."""

    def __init__(self) -> None:
        self._mesh = Mesh(jax.devices(), (AXIS,))
        self.everywhere = NamedSharding(self._mesh, ALL)

    def update(self, step: Callable[..., Any], *, stacked: bool) -> Callable[..., Any]:
        """A step, of parameters, statistics, optimizer, inputs and labels, on each rank's shard."""
        batch = _specification(stacked=stacked)
        return self._mapped(step, (ALL, ALL, ALL, batch, batch), ALL)

    def gradients(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gradients, logits and statistics, of parameters, statistics, inputs and labels."""
        batch = _specification(stacked=False)
        return self._mapped(function, (ALL, ALL, batch, batch), (ALL, (batch, ALL)))

    def _mapped(self, function: Callable[..., Any], inputs: Any, results: Any) -> Any:
        # Statistics differ between the ranks, so the check that results are equal is off.
        return jax.shard_map(
            function, mesh=self._mesh, in_specs=inputs, out_specs=results, check_vma=False
        )

    def replicated(self, tree: Any) -> Any:
        """Each rank's values as arrays that are on every device."""
        return jax.tree.map(self._replicated, tree)

    def _replicated(self, value: Any) -> Any:
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(self._replicated(jax.random.key_data(value)))
        return jax.make_array_from_process_local_data(self.everywhere, np.asarray(value))

    def batch(self, slice_: Array, *, stacked: bool) -> Any:
        """The global batch, or stack of batches, of which this rank has a slice."""
        sharding = NamedSharding(self._mesh, _specification(stacked=stacked))
        return jax.make_array_from_process_local_data(sharding, slice_)

    def own(self, tree: Any) -> Any:
        """This rank's part of global arrays."""
        return jax.tree.map(lambda each: each.addressable_data(0), tree)

    def exchange(self, values: Array) -> Callable[[], None]:
        """A function that adds the values of all ranks."""
        ours = self.batch(values[None], stacked=False)
        add = jax.jit(self._mapped(lambda each: lax.pmean(each, AXIS), (PartitionSpec(AXIS),), ALL))
        return lambda: jax.block_until_ready(add(ours))


def mean(tree: Any, device: str) -> Any:
    """The means of values over the ranks, in a function that `Ranks` maps."""
    if device != "cpu":
        return lax.pmean(tree, AXIS)  # XLA combines the exchanges of all values
    # On a CPU it does not: with one exchange for each parameter, a step of LeNet on two ranks took
    # 1.6 times as long.
    values, restored = ravel_pytree(tree)
    return restored(lax.pmean(values, AXIS))


def _specification(*, stacked: bool) -> PartitionSpec:
    """How a batch, or a stack of batches, is divided among the ranks."""
    return PartitionSpec(None, AXIS) if stacked else PartitionSpec(AXIS)
