"""The faults of the self-test fit the worker; test_selftest.py plants them."""

from pathlib import Path

import pytest

from suite.errors import DlsuiteError
from suite.manifests import catalog
from suite.manifests.files import names
from suite.paths import WORKER
from suite.runner.selftest.faults import (
    ACCUMULATE_FAULTS,
    BFLOAT16_FAULTS,
    FAULTS,
    INFERENCE_FAULTS,
    LAMB_FAULTS,
    NUMBER_FAULTS,
    RANK_FAULTS,
    RECIPE_FAULTS,
    TEXT_FAULTS,
    WEIGHT_FAULTS,
    Fault,
)
from suite.runner.selftest.layer_faults import LAYER_FAULTS
from suite.runner.selftest.timed_faults import DROPOUT_FAULTS, RUN_FAULTS, TIMED_INFERENCE_FAULTS

TRAINING = (*FAULTS, *NUMBER_FAULTS, *TEXT_FAULTS, *BFLOAT16_FAULTS, *RUN_FAULTS, *DROPOUT_FAULTS)
ALL = (
    *TRAINING,
    *RECIPE_FAULTS,
    *WEIGHT_FAULTS,
    *ACCUMULATE_FAULTS,
    *LAMB_FAULTS,
    *LAYER_FAULTS,
    *RANK_FAULTS,
    *INFERENCE_FAULTS,
    *TIMED_INFERENCE_FAULTS,
)


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_every_fault_fits_the_worker(fault: Fault) -> None:
    assert fault.framework in names("framework")
    assert fault.variant in (None, *catalog.framework(fault.framework).variants)
    assert (WORKER / fault.file).read_text(encoding="utf-8").count(fault.right) == fault.places


def test_there_are_seventy_nine_faults_of_different_kinds(tmp_path: Path) -> None:
    assert (len(FAULTS), len(TEXT_FAULTS), len(BFLOAT16_FAULTS), len(RUN_FAULTS)) == (16, 4, 9, 8)
    assert len({fault.name for fault in ALL}) == len(ALL) == 79
    assert {fault.precision for fault in BFLOAT16_FAULTS} == {"bf16_mixed"}
    for number, fault in enumerate(ALL):
        worker = fault.plant(tmp_path / str(number))
        text = (worker / fault.file).read_text(encoding="utf-8")
        assert text != (WORKER / fault.file).read_text(encoding="utf-8")
        compile(text, fault.file, "exec")


def test_a_fault_changes_its_file_alone(tmp_path: Path) -> None:
    fault = FAULTS[0]
    worker = fault.plant(tmp_path / "worker")
    changed = [
        file.relative_to(WORKER).as_posix()
        for file in WORKER.rglob("*.py")
        if file.read_bytes() != (worker / file.relative_to(WORKER)).read_bytes()
    ]
    assert changed == [fault.file]


def test_a_fault_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    stale = Fault(name="x", framework="jax", file="data.py", right="not there", wrong="")
    with pytest.raises(DlsuiteError, match="no longer fits"):
        stale.plant(tmp_path / "worker")
