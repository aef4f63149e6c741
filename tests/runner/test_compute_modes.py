"""GPUs on which a plan cannot start its workers."""

from __future__ import annotations

import pytest

from suite.errors import UsageError
from suite.runner.runner import check_compute_modes

BOARD = {"uuid": "GPU-1", "name": "H100", "compute_mode": "Default"}
SLICE = {**BOARD, "uuid": "MIG-1", "slice": "1g.10gb"}


def test_slices_cannot_train_together_but_each_alone() -> None:
    check_compute_modes([SLICE, SLICE], 1, interleaved=True)
    with pytest.raises(UsageError, match="2 devices train together, and the GPUs are MIG slices"):
        check_compute_modes([SLICE, SLICE], 2, interleaved=False)


def test_an_exclusive_gpu_has_one_worker_and_a_prohibited_one_none() -> None:
    exclusive = {**BOARD, "compute_mode": "Exclusive_Process"}
    check_compute_modes([exclusive, exclusive], 2, interleaved=False)
    with pytest.raises(UsageError, match="is Exclusive_Process, and --interleave"):
        check_compute_modes([BOARD, exclusive], 1, interleaved=True)
    with pytest.raises(UsageError, match="is Prohibited"):
        check_compute_modes([{**BOARD, "compute_mode": "Prohibited"}], 1, interleaved=False)


@pytest.mark.parametrize("mode", [None, "Default", "[N/A]"])
def test_an_unknown_mode_is_no_reason(mode: str | None) -> None:
    check_compute_modes([{**BOARD, "compute_mode": mode}], 8, interleaved=True)
