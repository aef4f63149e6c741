"""A signed run: what a witness adds; and a real run, verified as it is and with another page."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.manifests.datasets import DatasetManifest
from suite.protocol.plan import Plan
from suite.report import run_data
from suite.report.html import check, page
from suite.results import checksums, signature, store
from suite.runner import starts
from suite.runner.verification.verify import verify
from tests.results.test_signature import key
from tests.runner.verification.made_run import edit, finished

needs_ssh = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="there is no ssh-keygen")


@pytest.fixture
def run(
    digits: tuple[DatasetManifest, Path],
    home: Path,
    quick: Callable[..., Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    plan = replace(quick("jax", repeats=1), peak=True)
    return finished(plan, *digits, tmp_path, monkeypatch)


@needs_ssh
def test_a_consistent_forgery_of_a_signed_run_is_found(run: Path, tmp_path: Path) -> None:
    signer = signature.signer(key(tmp_path, "alice"))
    signers = tmp_path / "signers"
    signers.write_text("alice " + (tmp_path / "alice.pub").read_text())
    signer.sign(run / checksums.NAME)
    found = verify(run, (signers, "alice"))
    assert not found.findings
    notes = [str(each) for each in found.notes]
    assert "SHA256SUMS: signed by alice" in notes
    assert "starts/1.json: not signed: the run was signed after it was made" in notes

    for path in starts.files(run):
        edit(run, f"starts/{path.name}", lambda values: values["host"].update(kernel="9.0"))
    for path in store.record_files(run):
        edit(run, path.name, lambda values: values["environment"].update(kernel="9.0"))
    assert not verify(run).findings  # without a witness nobody can tell
    (found,) = verify(run, (signers, "alice")).findings
    assert str(found).startswith("SHA256SUMS: signature: expected alice")


def test_a_page_with_another_text_differs(run: Path) -> None:
    assert check.difference(run) is None  # no page
    path = run / page.NAME
    page.write(path, run_data.of(run, store.read(run)))
    assert check.difference(run) is None
    path.write_text(path.read_text().replace("JAX", "MXNet"))
    assert check.difference(run) is not None


@pytest.mark.verify
def test_a_real_run_verifies_and_its_page_cannot_name_another_winner(tmp_path: Path) -> None:
    def dlsuite(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from suite.cli.main import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    place = ("--results", str(tmp_path))
    options = ("--engine", "venv", "--framework", "pytorch", "--epochs", "1", "--repeats", "2")
    dlsuite("run", "quick", *options, *place)
    honest = dlsuite("verify", "latest", *place)
    assert honest.returncode == 0, honest.stdout + honest.stderr
    assert "predictions" not in honest.stdout  # they are kept, so there is no note
    path = tmp_path / "latest" / page.NAME
    path.write_text(path.read_text().replace("PyTorch", "MXNet"))
    checksums.write(path.parent)
    forged = dlsuite("verify", "latest", *place)
    assert forged.returncode == 12 and "finding: report.html: text: expected" in forged.stdout
