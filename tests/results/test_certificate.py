"""Certificates are found in a run's folder, or in the cache."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from suite.parity import certificates
from suite.results import certificate
from tests.report.made_run import made_certificate

KEY = "0123456789abcdef"


def write(place: Path, text: str) -> None:
    folder = place / certificate.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{KEY}.json").write_text(text)


def test_the_one_in_the_runs_folder_goes_before_the_one_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    run = tmp_path / "run"
    assert certificate.find(KEY, run) is None
    written = asdict(made_certificate("jax", "jit", "equal"))
    write(tmp_path / "home", json.dumps(written))
    found = certificate.find(KEY, run)
    assert found and found.tolerance == 1e-4 and len(found.errors) == 10
    write(run, json.dumps(written | {"tolerance": 1.0}))
    found = certificate.find(KEY, run)
    assert found and found.tolerance == 1.0


def test_an_infinite_error_is_null_in_the_file(tmp_path: Path) -> None:
    """The worker wrote NaN. Other programs do not read Python's `Infinity`."""
    errors = [{"logits": math.inf, "loss": 0.5}]
    made = replace(
        made_certificate("jax", "jit", "equal"),
        proven=False,
        errors=errors,
        raised=[],
        worst={"logits": math.inf},
        share=math.inf,
    )
    certificates.keep(tmp_path, [made])
    (path,) = (tmp_path / certificate.FOLDER).iterdir()
    assert json.loads(path.read_text())["errors"] == [{"logits": None, "loss": 0.5}]
    assert "Infinity" not in path.read_text()
    assert certificates.read(path) == made
    found = certificate.find(made.key, tmp_path)
    assert found and found.errors == errors and found.share == math.inf


@pytest.mark.parametrize("text", ["{", "[]", '{"tolerance": 1}'])
def test_a_damaged_one_is_not_found(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    assert certificate.find(KEY, tmp_path) is None


def test_the_place_in_the_cache_is_that_of_the_proofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path))
    assert certificates._path(KEY).relative_to(tmp_path) == Path(certificate.FOLDER, f"{KEY}.json")
