"""The commands `dlsuite cloud`, with a `sky` that keeps its machines in a folder."""

import json
from pathlib import Path

import pytest
import yaml

from suite.cli import cloud
from suite.cli.doctor import _rented
from suite.cloud import journal, skypilot
from suite.cloud.journal import Journal
from suite.cloud.skypilot import Found
from suite.errors import BusyError, MachineLeft, ResultsError, RunsFailed, UsageError
from tests.cloud.test_images import needed, pinned_base, put
from tests.cloud.test_machine import RUN, Sky, sky, task
from tests.cloud.test_offers import offer
from tests.cloud.test_skypilot import Stub, printed, stub
from tests.engines.docker.test_lookup import Registry, registry

__all__ = ["pinned_base", "registry", "sky", "stub"]
NAME = "dlsuite-quick-h100x1"


@pytest.fixture
def rented(sky: Sky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which machines can be rented; each has a run without records."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        skypilot, "offers", lambda *a, **k: Found(version="0.14.1", offers=(offer(2.5),))
    )
    (sky.folder / f"remote/{RUN}").mkdir()
    (sky.folder / f"remote/{RUN}/plan.json").write_text("{}")
    return tmp_path


def rent(**changes: object) -> None:
    cloud.run("quick", **{"gpu": ["H100:1"], "max_price": 3.0, "yes": True, **changes})


def test_a_machine_is_rented_only_with_a_yes(rented: Path, sky: Sky) -> None:
    with pytest.raises(UsageError, match=r"rent 1 machines, at most 4\.17 \$ together: nobody"):
        rent(yes=False)
    assert not (sky.folder / "calls").exists()


def test_machines_are_rented_one_after_the_other_and_their_runs_are_here(
    rented: Path, sky: Sky, capsys: pytest.CaptureFixture[str]
) -> None:
    rent(machines=2)
    assert sky.calls == ["launch", "down"] * 2 and not sky.machines
    shown = capsys.readouterr().out
    assert f"{NAME}: gone, about 0.00 $" in shown and f"{NAME}-n2: gone" in shown
    papers = {each.name for each in (rented / "results" / RUN / "cloud").iterdir()}
    assert papers == {"task.yaml", "offer.json", "events.jsonl", "provision.log"}
    cloud.status()
    assert "no machine that dlsuite rented is alive" in capsys.readouterr().out
    assert list(_rented()) == []


def test_a_failed_job_is_named_at_the_end(rented: Path, sky: Sky) -> None:
    sky.ill("job-fails")
    with pytest.raises(RunsFailed, match=rf"{NAME}: sky launch: .*provision\.log"):
        rent()
    assert (rented / "results" / RUN).is_dir()


def test_a_machine_that_is_left_has_its_own_exit_code_and_is_named_everywhere(
    rented: Path, sky: Sky, capsys: pytest.CaptureFixture[str]
) -> None:
    sky.ill("down-fails")
    with pytest.raises(
        MachineLeft, match=r"at aws/us-east-1 may be alive, 2\.5 \$ per hour"
    ) as left:
        rent()
    assert left.value.exit_code == 13
    cloud._group()
    assert f"dlsuite cloud down {NAME}" in capsys.readouterr().err
    assert [each.next_step for each in _rented()] == [f"dlsuite cloud down {NAME}"]
    cloud.status()
    assert "has ended" in capsys.readouterr().out
    sky.ill()
    cloud.down(all=True)
    assert "no machine is left" in capsys.readouterr().out and not sky.machines
    assert not journal.open_journals()


def test_results_are_pulled_from_a_machine_whose_client_was_killed(
    rented: Path, sky: Sky, capsys: pytest.CaptureFixture[str]
) -> None:
    (sky.folder / "machines" / NAME).write_text("UP")
    Journal.new(task()).write(journal.LAUNCH)
    with pytest.raises(BusyError):
        rent()
    cloud.pull(NAME)
    assert RUN in capsys.readouterr().out and (rented / "results" / RUN).is_dir()
    with pytest.raises(UsageError, match="no machine 'other' was rented; known: dlsuite"):
        cloud.pull("other")
    with pytest.raises(UsageError, match="one machine or --all"):
        cloud.down()
    cloud.down(NAME)
    cloud.down(all=True)  # of none
    assert not journal.open_journals() and not sky.machines


def test_a_run_is_resumed_on_a_machine_of_the_same_type(
    rented: Path, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="was rented"):
        cloud.resume(NAME, yes=True)
    sky.ill("job-fails")
    with pytest.raises(RunsFailed):
        rent()
    sky.ill()
    cloud.resume(NAME, yes=True)
    newest = journal.journals()[-1].folder
    text = (newest / "task.yaml").read_text()
    assert "resume latest" in text and (newest / "dlsuite-results" / RUN).is_dir()
    dearer = Found(version="0.14.1", offers=(offer(3.5),))
    monkeypatch.setattr(skypilot, "offers", lambda *a, **k: dearer)
    with pytest.raises(ResultsError, match="above --max-price 3"):
        cloud.resume(NAME, yes=True)


def test_images_are_pulled_on_the_machine_and_are_there_before_it_is_rented(
    rented: Path, sky: Sky, registry: Registry
) -> None:
    lab = f"{registry.address}/lab"
    with pytest.raises(ResultsError, match=f"{lab} has no cuda images"):
        rent(images=lab)
    assert not (sky.folder / "calls").exists() and not journal.journals()
    put(registry, needed(gpus=1))
    rent(images=lab)
    assert sky.calls == ["launch", "down"]
    papers = rented / "results" / RUN / "cloud"
    pulled = json.loads((papers / "images.json").read_text())["images"]
    assert set(pulled) == {f"{each.framework}-cuda" for each in needed(gpus=1)}
    assert json.loads((papers / "offer.json").read_text())["images"] == lab
    assert f"images pull {lab} --device cuda" in (papers / "task.yaml").read_text()
    registry.manifests.clear()
    with pytest.raises(ResultsError, match="has no cuda images"):
        cloud.resume(NAME, yes=True)


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
    folder = out / "dlsuite-quick-h100x1"
    assert yaml.safe_load((folder / "task.yaml").read_text())["resources"]["infra"] == (
        "lambda/us-west-3"
    )
    values = json.loads((folder / "offer.json").read_text())
    assert values["price_per_hour"] == 2.49 and values["skypilot"] == "0.14.1"
    assert values["provider"] == "lambda" and values["spot"] is False


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
