"""What a container of ours is: what it may do, what it may use. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.engines.gpus import Gpus, request
from suite.engines.volumes import UID

MEMORY_SHARE = 0.9  # of the machine's, where the user sets no limit: the rest keeps it alive
PIDS = 4096
SHM_SHARE = 0.5  # of the memory, as Linux has it: loaders pass batches through /dev/shm
LOG_BYTES = 2**26  # of what the engine keeps of a worker's output

# Labels: whose a container or volume is, and of which trial. `dlsuite` itself says what it is for.
OWNER, TRIAL = "dlsuite.owner", "dlsuite.trial"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user chooses of a container."""

    gpus: Gpus | None = None
    memory_bytes: int | None = None
    keep: bool = False  # containers and volumes, to look into them


def limits(settings: Settings, host: dict[str, Any]) -> dict[str, Any]:
    """Of every worker on this machine; they stand in its record."""
    memory_bytes = settings.memory_bytes or int(host["memory_bytes"] * MEMORY_SHARE)
    return {
        "memory_bytes": memory_bytes,
        "pids": PIDS,
        "shm_bytes": int(memory_bytes * SHM_SHARE),
        "cpus": host["cpus"],
    }


def gpu_options(settings: Settings, info: dict[str, Any]) -> dict[str, Any]:
    return {"device_requests": [request(settings.gpus, info)]} if settings.gpus else {}


def options(limits: dict[str, Any]) -> dict[str, Any]:
    """How a worker's container is created, but for its volumes and GPUs."""
    return {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        # A fresh /tmp for each: no compiler finds there what another run has cached.
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
        "user": f"{UID}:{UID}",
        "init": True,
        "pids_limit": limits["pids"],
        "mem_limit": limits["memory_bytes"],
        "memswap_limit": limits["memory_bytes"],  # that is: no swap
        "shm_size": limits["shm_bytes"],
        "cpuset_cpus": ",".join(map(str, limits["cpus"])),
        "log_config": {"type": "json-file", "config": {"max-size": str(LOG_BYTES)}},
    }
