"""The options of a worker's container: privileges, resources, labels."""

from __future__ import annotations

from typing import Any

from suite.engines.docker.volumes import UID
from suite.engines.gpus import requests
from suite.engines.settings import Settings

MEMORY_SHARE = 0.9  # of the machine's memory, unless the user sets a limit
PIDS = 4096
SHM_SHARE = 0.5  # of the memory, as is Linux's default: loaders pass batches through /dev/shm
LOG_BYTES = 2**26  # the part of a worker's output that the engine keeps

# Labels: the session and the trial of a container or volume. `dlsuite` names its purpose.
SESSION, TRIAL = "dlsuite.session", "dlsuite.trial"


def limits(settings: Settings, memory_bytes: int) -> dict[str, int]:
    """The limits of every worker on a machine with so much memory."""
    limit_bytes = settings.memory_bytes or int(memory_bytes * MEMORY_SHARE)
    return {
        "memory_bytes": limit_bytes,
        "pids": PIDS,
        "shm_bytes": int(limit_bytes * SHM_SHARE),
    }


def in_force(limits: dict[str, int], seen: dict[str, Any]) -> dict[str, int | None]:
    """The limits that a container has (worker/host.py): an engine may drop some without an error.

    A rootless engine and Podman do so where the kernel gives them no control group.
    """
    return {**limits, "memory_bytes": seen["memory_limit_bytes"], "pids": seen["pids_limit"]}


def gpu_options(settings: Settings, info: dict[str, Any]) -> list[dict[str, Any]]:
    """Options that may give a container its GPUs, the likeliest first; none without GPUs."""
    wanted = requests(settings.gpus, info) if settings.gpus else []
    return [{"device_requests": [each]} for each in wanted]


def limit_options(limits: dict[str, int]) -> dict[str, Any]:
    """The options that give a container its limits."""
    return {
        "pids_limit": limits["pids"],
        "mem_limit": limits["memory_bytes"],
        "memswap_limit": limits["memory_bytes"],  # equal to mem_limit: no swap
        "shm_size": limits["shm_bytes"],
    }


def options(limits: dict[str, int], cpus: list[int]) -> dict[str, Any]:
    """The options of a worker's container, without its volumes and GPUs."""
    return {
        **limit_options(limits),
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        # A new /tmp for each container, so that no compiler finds the cache of another run.
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
        "user": f"{UID}:{UID}",
        "init": True,
        "cpuset_cpus": ",".join(map(str, cpus)),
        "log_config": {"type": "json-file", "config": {"max-size": str(LOG_BYTES)}},
    }
