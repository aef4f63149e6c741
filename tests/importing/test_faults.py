"""The faults of an import fit the readers; the self-test plants them, and each must be found."""

from pathlib import Path

import pytest

from suite.engines.venv.engine import VenvEngine
from suite.errors import DlsuiteError
from suite.importing import reading
from suite.runner.frameworks import Frameworks
from suite.runner.selftest import import_faults


@pytest.mark.parametrize("name", import_faults.FAULTS)
def test_every_fault_fits_the_readers(name: str, tmp_path: Path) -> None:
    readers = import_faults.plant(name, tmp_path)
    changed = [
        file.name
        for file in reading.READERS.glob("*.py")
        if file.read_bytes() != (readers / file.name).read_bytes()
    ]
    assert changed == [import_faults.FAULTS[name][0]]
    compile((readers / changed[0]).read_text(), changed[0], "exec")


def test_a_fault_that_does_not_fit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(import_faults.FAULTS, "stale", ("common.py", "not there", ""))
    with pytest.raises(DlsuiteError, match="no longer fits"):
        import_faults.plant("stale", tmp_path)


@pytest.mark.verify
def test_each_fault_is_found_and_nothing_without_one(tmp_path: Path) -> None:
    engine = VenvEngine()
    prepared = Frameworks(engine, print).with_reference(("pytorch",))
    found = [*import_faults.findings(engine, prepared, tmp_path, print)]
    assert len(found) == 11 and not found[0].fault
    assert [each.fault for each in found if not each.good] == []
