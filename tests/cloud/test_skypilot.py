"""SkyPilot's answers: a stub on PATH for each way to fail, and the real one where it is there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.cloud import skypilot
from suite.cloud.offers import Offer, Wanted
from suite.errors import EngineError
from tests.cloud.test_offers import offer

H100 = Wanted.of_gpu("H100")
Stub = Callable[[str], None]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Puts a program `sky` on PATH whose Python is the given shell script."""

    def make(script: str) -> None:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        sky = tmp_path / "sky"
        sky.write_text(f"#!{python}\n")
        sky.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return make


def printed(*offers: Offer) -> str:
    values = {"version": "0.14.1", "offers": [each.model_dump(mode="json") for each in offers]}
    return f"cat <<'END'\n{json.dumps(values)}\nEND"


def ask() -> skypilot.Found:
    return skypilot.offers(H100, clouds=["aws"], region=None)


def test_offers_are_read_from_the_last_line(stub: Stub) -> None:
    stub(f"echo a banner\n{printed(offer(1.0), offer(2.0))}")
    found = ask()
    assert found.version == "0.14.1"
    assert [each.price_per_hour for each in found.offers] == [1.0, 2.0]


def test_the_request_is_one_argument(stub: Stub, tmp_path: Path) -> None:
    stub(f'printf "%s" "$2" > {tmp_path}/request\n{printed()}')
    skypilot.offers(H100, clouds=["aws", "gcp"], region="eu")
    assert json.loads((tmp_path / "request").read_text()) == {
        "accelerator": "H100",
        "count": 1,
        "infra": None,
        "cpus": None,
        "clouds": ["aws", "gcp"],
        "region": "eu",
    }


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'no catalog of aws' >&2; exit 1", "no catalog of aws"),
        ("exit 0", "it printed ''"),
        ("echo '<html>'", "it printed '<html>'"),
        ("echo '[]'", r"it printed '\[\]'"),
        ('echo \'{"version": "1"}\'', "it printed"),
        ('echo \'{"version": "1", "offers": [{"cloud": "aws"}]}\'', "region"),
        ("printf '\\377\\n'", "it printed"),
    ],
)
def test_an_answer_that_is_none_is_one_error(stub: Stub, script: str, reason: str) -> None:
    stub(script)
    with pytest.raises(EngineError, match=f"SkyPilot lists no offers: .*{reason}"):
        ask()


def test_a_late_answer_is_an_error(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skypilot, "TIMEOUT_S", 0.2)
    stub("sleep 30")
    with pytest.raises(EngineError, match="SkyPilot lists no offers"):
        ask()


def test_without_skypilot_the_hint_is_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="sky, SkyPilot's program, is not on PATH") as caught:
        ask()
    assert "uv tool install" in str(caught.value.hint)
    (tmp_path / "sky").write_text("no program")
    (tmp_path / "sky").chmod(0o755)
    with pytest.raises(EngineError, match="names no Python in its first line: 'no program'"):
        ask()


@pytest.mark.skipif(shutil.which("sky") is None, reason="SkyPilot is not installed")
def test_the_real_skypilot_lists_the_offers_of_a_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogs are files of this test, so that nothing is fetched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    memory = "{'Gpus': [{'Name': 'H100', 'Count': 1, 'MemoryInfo': {'SizeInMiB': 81920}}]}"
    head = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,"
    for cloud, price in (("lambda", 2.49), ("verda", 1.5)):
        folder = tmp_path / f".sky/catalogs/v8/{cloud}"
        folder.mkdir(parents=True)
        row = f'one,H100,1,26,200,{price},,here,"{memory}"'
        (folder / "vms.csv").write_text(f"{head}GpuInfo\n{row}\n")
    found = skypilot.offers(H100, clouds=["lambda", "verda"], region=None)
    by_cloud = {each.cloud: each for each in found.offers}
    assert by_cloud["lambda"].price_per_hour == 2.49 and not by_cloud["lambda"].no_autodown
    assert by_cloud["verda"].no_autodown and by_cloud["verda"].catalog.sha256
