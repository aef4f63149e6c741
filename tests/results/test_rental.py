"""The offer of a rented machine, and what the machine does not have of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from suite.errors import ManifestError
from suite.results import rental
from suite.results.rental import Rental

VALUES: dict[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "zone": None,
    "machine_type": "p5.4xlarge",
    "accelerator": "A100-80GB",
    "accelerators": 1,
    "vcpus": 16.0,
    "memory_gib": 256.0,
    "spot": False,
    "price_per_hour": 3.0,
    "catalog": {"file": "aws/vms.csv", "sha256": None, "modified_s": None},
    "skypilot": "0.14.1",
}
HOST = {
    "gpus": [{"name": "NVIDIA A100 80GB PCIe"}],
    "logical_cpus": 16,
    "memory_bytes": (240 * 2**30),
}


def test_the_offer_is_in_the_file_that_the_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rental.of_variable() is None
    path = tmp_path / "offer.json"
    path.write_text(json.dumps(VALUES))
    monkeypatch.setenv(rental.VARIABLE, str(path))
    found = rental.of_variable()
    assert found is not None and found["machine"] == 1
    assert rental.of_environment({"rental": found}) == Rental(**VALUES)
    assert rental.of_environment({}) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", "Expecting value"),
        ("{}", "provider"),
        ("[]", "valid dictionary"),
    ],
)
def test_a_file_that_is_no_offer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, reason: str
) -> None:
    path = tmp_path / "offer.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(rental.VARIABLE, str(path))
    with pytest.raises(ManifestError, match=reason):
        rental.of_variable()


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ({}, []),
        ({"gpus": []}, []),  # a run on the CPU
        ({"gpus": HOST["gpus"] * 2}, ["offered 1 GPUs, found 2"]),
        ({"gpus": [{"name": "Tesla T4"}]}, ["offered A100-80GB, found Tesla T4"]),
        ({"logical_cpus": 8}, ["offered 16 vCPUs, found 8"]),
        ({"logical_cpus": 32}, []),
        ({"memory_bytes": 128 * 2**30}, ["offered 256 GiB of memory, found 128"]),
        ({"memory_bytes": None}, []),
    ],
)
def test_what_the_machine_lacks_is_named(host: dict[str, Any], found: list[str]) -> None:
    assert list(rental.differences(Rental(**VALUES), {**HOST, **host})) == found
