"""The file for SkyPilot."""

from pathlib import Path
from typing import Any

import yaml

from suite.cloud.task import Task
from suite.engines.docker.pins import Pins, Pushed
from suite.paths import REPOSITORY
from suite.results.rental import Rental
from tests.cloud.test_offers import limits, offer

HERE = Path("/somewhere")


def task(*, offered: Any = None, **changes: Any) -> Task:
    values = {"name": "dlsuite-quick-h100x1", "suite_name": "quick", "max_time": "1h"}
    offered = offered or offer(2.49)
    return Task(offer=offered, skypilot="0.14.1", **{"limits": limits(), **values, **changes})


def file_of(made: Task) -> dict[str, Any]:
    found = yaml.safe_load(made.text(HERE))
    assert isinstance(found, dict)
    return found


def test_the_file_names_the_offer_and_ends_the_machine_in_three_ways() -> None:
    found = file_of(task())
    assert found["name"] == "dlsuite-quick-h100x1" and found["workdir"] == str(REPOSITORY)
    resources = found["resources"]
    assert resources["infra"] == "aws/us-east-1" and resources["instance_type"] == "p5"
    assert resources["accelerators"] == "H100:1" and resources["use_spot"] is False
    assert resources["max_hourly_cost"] == 3
    assert resources["autostop"] == {"idle_minutes": 10, "down": True}
    assert "shutdown -P +100" in found["setup"] and "timeout 1200 bash" in found["setup"]
    assert "dlsuite peak --framework pytorch --gpus 1" in found["setup"]
    assert "timeout --signal INT --kill-after 60 3600" in found["run"]
    assert "dlsuite run quick --max-time 1h --gpus 1 --results" in found["run"]


def test_a_job_on_machines_of_somebody_does_not_end_them() -> None:
    place = offer(0.08, cloud="slurm", region="loop", zone="cheap", accelerator=None, count=0)
    found = file_of(task(offered=place))
    assert found["resources"]["infra"] == "slurm/loop/cheap"
    assert set(found["resources"]) == {"infra", "instance_type", "autostop"}
    assert "shutdown" not in found["setup"] and "peak" not in found["setup"]
    assert "--gpus" not in found["run"]


def test_the_offer_is_on_the_machine_and_in_its_records() -> None:
    found = file_of(task())
    assert found["file_mounts"] == {"~/dlsuite-offer.json": "/somewhere/offer.json"}
    for part in ("setup", "run"):
        assert 'export DLSUITE_OFFER="$HOME/dlsuite-offer.json"' in found[part]
    assert task().rental == Rental(
        provider="aws",
        region="us-east-1",
        zone=None,
        machine_type="p5",
        accelerator="H100",
        accelerators=1,
        vcpus=16.0,
        memory_gib=256.0,
        spot=False,
        price_per_hour=2.49,
        catalog=offer().catalog,
        skypilot="0.14.1",
    )


def test_a_resumed_run_takes_what_was_pulled() -> None:
    found = file_of(task(resumed=True))
    assert found["file_mounts"]["~/dlsuite-results"] == "/somewhere/dlsuite-results"
    assert ".venv/bin/dlsuite resume latest" in found["run"] and "run quick" not in found["run"]


def test_images_of_a_registry_are_pulled_before_the_first_of_them_is_used() -> None:
    image = Pushed(reference="r.org/lab/dlsuite/jax@sha256:1", image_id="sha256:2")
    made = task(registry="r.org/lab", pins=Pins(images={"jax-cuda": image}), variables={"A": "b"})
    found = file_of(made)
    assert found["file_mounts"]["~/dlsuite-images.json"] == "/somewhere/images.json"
    assert found["envs"] == {"DLSUITE_ENGINE": "docker", "A": "b"}
    lines = found["setup"].splitlines()
    pull = (
        '.venv/bin/dlsuite images pull r.org/lab --device cuda --pins "$HOME/dlsuite-images.json"'
    )
    assert lines.index(pull) == 1 + lines.index(".venv/bin/dlsuite cloud check")
    assert lines[-1].startswith(".venv/bin/dlsuite peak")
    assert made.rental.images == "r.org/lab" and task().rental.images is None


def test_the_file_says_what_it_costs_and_how_it_is_used_by_hand() -> None:
    comments = [line for line in task().text(HERE).splitlines() if line.startswith("#")]
    assert "# 2.49 $ per hour, at most 100 minutes: 4.15 $." in comments
    assert any("sky launch --cluster dlsuite-quick-h100x1 task.yaml" in c for c in comments)
    assert any("sky down dlsuite-quick-h100x1" in line for line in comments)


def test_names_and_options_are_no_commands() -> None:
    found = file_of(
        task(suite_name="a; rm -rf /", options=("--model", "$(id)"), variables={"A": ": x"})
    )
    assert "run 'a; rm -rf /' --max-time" in found["run"] and "'$(id)'" in found["run"]
    assert found["envs"] == {"A": ": x"}
