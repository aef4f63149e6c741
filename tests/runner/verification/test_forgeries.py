"""Forgeries of a run, with SHA256SUMS computed again after each: each is found.

Those that only a witness finds are tested at the end: `verify` must not claim more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.errors import ResultsError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.models import MODELS
from suite.protocol.plan import Plan
from suite.results import checksums, store
from suite.runner.verification import age
from suite.runner.verification.verify import verify
from tests.runner.verification.forgeries import FOUND, NOT_FOUND, in_records, records
from tests.runner.verification.made_run import finished

Values = dict[str, Any]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sent")


@pytest.fixture
def run(
    sent: Path,
    digits: tuple[DatasetManifest, Path],
    home: Path,
    quick: Callable[..., Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A copy of a run of two trials and three repeats, which is made once."""
    if not list(sent.iterdir()):
        lenet = catalog.suite("quick").workloads[0].model_copy(update={"epochs": 1})
        plan = replace(quick("pytorch", "jax", repeats=3, workloads=(lenet,)), peak=True)
        made = finished(plan, *digits, tmp_path, monkeypatch)
        assert {record.status for record in store.read(made)} == {"ok"}
        shutil.copytree(made, sent / made.name)
    (made,) = sent.iterdir()
    return Path(shutil.copytree(made, tmp_path / "copy" / made.name))


def outcomes(run: Path) -> Iterator[str]:
    found = verify(run)
    yield from map(str, found.findings)
    yield from (str(each) for each in found.notes if "nothing confirms" in str(each))


@pytest.mark.parametrize(
    ("forge", "expected"),
    FOUND.items(),
    ids=[f"{number}-{forge.__name__}" for number, forge in enumerate(FOUND)],
)
def test_a_forgery_with_right_checksums_is_found(
    run: Path, forge: Callable[[Path], None], expected: str
) -> None:
    assert not verify(run).findings
    forge(run)
    checksums.write(run)
    found = [*outcomes(run)]
    assert any(expected in line for line in found), "\n".join(found)


def test_a_run_of_an_older_version_lacks_parts_and_verifies(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without predictions, starts and descriptions; the notes say so."""
    monkeypatch.setattr(age, "is_recent", lambda folder: False)
    for folder in ("starts", "inputs"):
        shutil.rmtree(run / folder)
    for path in run.glob("logs/*.predictions.npy"):
        path.unlink()
    in_records(run, lambda values: values["environment"].pop("boot_id"))
    checksums.write(run)
    found = verify(run)
    assert not found.findings
    notes = "\n".join(map(str, found.notes))
    assert "starts: not in the run" in notes
    assert "r0.json: the predictions are not kept, so the accuracy is not compared" in notes


@pytest.fixture
def no_lenet() -> Iterator[None]:
    """A checkout without the model; afterwards the models have their order again."""
    models = dict(MODELS)
    del MODELS["lenet"]
    yield
    MODELS.clear()
    MODELS.update(models)


@pytest.mark.parametrize("kind", ["deep", "directory", "link to itself", "huge array"])
def test_a_file_that_cannot_be_read_is_a_finding(run: Path, kind: str) -> None:
    """Not a traceback, whatever the file is."""
    names = ["SHA256SUMS", "plan.json", "peak.yaml", "starts/1.json"]
    names += [str(records(run)[0].relative_to(run))]
    for pattern in ("certificates/*", "inputs/*", "logs/*.events.jsonl", "logs/*.npy"):
        names.append(min(run.glob(pattern)).relative_to(run).as_posix())
    for name in names:
        path = run / name
        path.rename(run.parent / "kept")
        if kind == "deep":
            path.write_text("[" * 100_000)
        elif kind == "directory":
            path.mkdir()
        elif kind == "link to itself":
            path.symlink_to(path.name)
        else:
            head = "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 1000000000000)}"
            path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        assert verify(run).findings, name
        path.rmdir() if kind == "directory" else path.unlink()
        (run.parent / "kept").rename(path)


def test_a_pipe_in_a_run_is_refused(run: Path) -> None:
    os.mkfifo(run / "jax-r9.json")
    with pytest.raises(ResultsError, match=r"jax-r9.json is no regular file"):
        verify(run)


@pytest.mark.usefixtures("no_lenet")
def test_a_checkout_that_lacks_the_model_verifies_the_run(run: Path) -> None:
    assert not verify(run).findings
    in_records(run, lambda values: values.update(flops_per_sample=1))
    assert any("flops_per_sample: expected " in line for line in outcomes(run))


def test_a_run_without_checksums_is_not_verified(run: Path) -> None:
    (run / checksums.NAME).unlink()
    assert any(line.startswith("SHA256SUMS: file: expected") for line in outcomes(run))


@pytest.mark.parametrize("forge", NOT_FOUND)
def test_a_consistent_forgery_needs_a_witness(run: Path, forge: Callable[[Path], None]) -> None:
    """As docs/how-to/send-a-run.md says: where one of these is found, the text is to be changed."""
    forge(run)
    checksums.write(run)
    assert not [*outcomes(run)]
