"""`dlsuite cloud plan`."""

import json
from pathlib import Path

import pytest
import yaml

from suite.cli import cloud
from suite.cloud import skypilot
from suite.errors import ResultsError, UsageError
from tests.cloud.test_offers import offer
from tests.cloud.test_skypilot import Stub, printed, stub

__all__ = ["stub"]


@pytest.fixture
def offers(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    stub(printed(offer(6.88), offer(2.49, cloud="lambda", region="us-west-3"), offer(0)))


@pytest.mark.usefixtures("offers")
def test_a_plan_shows_all_offers_and_writes_the_cheapest_allowed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan"
    cloud.plan("quick", gpu=["H100:1"], max_price=3, max_cost=10, out=out)
    shown = capsys.readouterr().out
    rows = [line.split(maxsplit=6) for line in shown.splitlines() if "H100:1 " in line]
    assert [row[-1].strip() for row in rows] == [
        "a price of 0 is no price",
        "chosen",
        "above --max-price 3",
    ]
    folder = out / "dlsuite-quick-h100-1"
    assert yaml.safe_load((folder / "task.yaml").read_text())["resources"]["infra"] == (
        "lambda/us-west-3"
    )
    values = json.loads((folder / "offer.json").read_text())
    assert values["price_per_hour"] == 2.49 and values["skypilot"] == "0.14.1"
    assert values["offer"]["cloud"] == "lambda" and values["spot"] is False


@pytest.mark.usefixtures("offers")
def test_without_an_offer_within_the_limits_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ResultsError, match="no machine within the limits has H100:1"):
        cloud.plan("quick", gpu=["H100:1"], max_price=1, out=tmp_path / "plan")
    assert "above --max-price 1" in capsys.readouterr().out
    assert not (tmp_path / "plan").exists()


def test_limits_must_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SkyPilot is not asked before."""
    monkeypatch.setattr(skypilot, "offers", None)
    with pytest.raises(UsageError, match="--gpu is missing"):
        cloud.plan("quick", max_price=3, out=tmp_path)
    for price, cost in ((None, None), (0, None), (-1, None), (3, 0)):
        with pytest.raises(UsageError, match="--max-price must be given"):
            cloud.plan("quick", gpu=["H100"], max_price=price, max_cost=cost, out=tmp_path)
    with pytest.raises(UsageError, match="unknown suite 'quik'"):
        cloud.plan("quik", gpu=["H100"], max_price=3, out=tmp_path)
    with pytest.raises(UsageError, match="no kind of GPU"):
        cloud.plan("quick", gpu=["H100:0"], max_price=3, out=tmp_path)
