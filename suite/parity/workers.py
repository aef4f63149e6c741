"""The workers of a proof: which ones compute the reference, and how many run at once."""

from __future__ import annotations

from suite.manifests import catalog
from suite.manifests.devices import DeviceKind
from suite.manifests.tracks import EQUAL, RuntimeSettings
from suite.manifests.workloads import Workload
from suite.models.architecture import Architecture

# The two independent lowerings of the reference: framework and variant.
LOWERINGS = (("pytorch", "eager"), ("jax", "jit"))
FRAMEWORKS = tuple(framework for framework, _ in LOWERINGS)
# What makes a lowering compute the same bits twice on a GPU.
DETERMINISTIC = {
    "pytorch": RuntimeSettings(
        threads="cores",
        tf32=False,
        settings={"deterministic": True},
        environment={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    ),
    "jax": RuntimeSettings(
        threads="cores",
        tf32=False,
        environment={"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"},
    ),
}
MASK_DRAWS = 8  # steps with other dropout masks, with which a step of a run is compared
# A step that moves at most this much is small: several workers fit into memory, and most of the
# time of a proof is that of starting them.
SMALL_STEP_BYTES = 2**28


def at_once(architecture: Architecture, workload: Workload) -> int:
    """The number of workers that may prove a workload at the same time: two if it is small."""
    per_sample = architecture.bytes_per_sample(workload.mode, workload.batch_size)
    return 2 if per_sample * workload.batch_size <= SMALL_STEP_BYTES else 1


def reference_settings(framework: str, device: DeviceKind) -> RuntimeSettings:
    """The settings of a lowering of the reference on a device."""
    usual = catalog.runtime_settings(framework, EQUAL, device)
    if device == "cpu":
        return usual
    own = DETERMINISTIC[framework]
    return usual.model_copy(
        update={
            "settings": own.settings,
            "environment": {**usual.environment, **own.environment},
        }
    )
