"""The workers of a proof: which ones compute the reference, and how many run at once."""

from __future__ import annotations

from suite.manifests.workloads import Workload
from suite.models.architecture import Architecture

# The two independent lowerings of the reference: framework and variant.
LOWERINGS = (("pytorch", "eager"), ("jax", "jit"))
FRAMEWORKS = tuple(framework for framework, _ in LOWERINGS)
MASK_DRAWS = 8  # steps with other dropout masks, with which a step of a run is compared
# A step that moves at most this much is small: several workers fit into memory, and most of the
# time of a proof is that of starting them.
SMALL_STEP_BYTES = 2**28


def at_once(architecture: Architecture, workload: Workload) -> int:
    """The number of workers that may prove a workload at the same time: two if it is small."""
    per_sample = architecture.bytes_per_sample(workload.mode, workload.batch_size)
    return 2 if per_sample * workload.batch_size <= SMALL_STEP_BYTES else 1
