"""PyTorch's ranks: one process group, and DistributedDataParallel around the model."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ...protocol import Trial


def join(trial: Trial) -> None:
    """Meet the other ranks: over NCCL on GPUs, over gloo on CPUs."""
    # gloo looks for the interface of this host's own name, which may have none.
    if trial.addresses[trial.rank].startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # With this variable of torchrun, rank 0 would not listen at the address of the group.
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    distributed.init_process_group(
        "gloo" if trial.device == "cpu" else "nccl",
        init_method=f"tcp://{trial.addresses[0]}",
        rank=trial.rank,
        world_size=trial.world_size,
    )
    atexit.register(distributed.destroy_process_group)


def data_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """The model, whose gradients are the means over the ranks.

    Its buffers are the running statistics of batch norms, which training does not read. Each rank
    keeps its own; those of rank 0 count, as they do where they are sent to the others in each step.
    """
    return DistributedDataParallel(
        model,
        device_ids=None if device.type == "cpu" else [device],
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        static_graph=True,
    )


def mean_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """The means of values over the ranks; the gradients are exchanged too."""
    from torch.distributed.nn.functional import all_reduce  # a slow import that few trials need

    return all_reduce(values) / distributed.get_world_size()


def exchange(values: torch.Tensor, synchronize: Callable[[], None]) -> Callable[[], None]:
    """A function that adds the values of all ranks."""

    def add() -> None:
        distributed.all_reduce(values)
        synchronize()

    return add
