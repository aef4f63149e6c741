"""The file for SkyPilot."""

import yaml

from suite.cloud.task import Task
from suite.paths import REPOSITORY
from tests.cloud.test_offers import limits, offer


def task(**changes: object) -> Task:
    values = {"name": "dlsuite-quick-h100-1", "suite_name": "quick", "max_time": "1h"}
    return Task(offer=offer(2.49), limits=limits(**changes), **values)  # type: ignore[arg-type]


def test_the_file_names_the_offer_and_ends_the_machine_in_three_ways() -> None:
    found = yaml.safe_load(task().text)
    assert found["name"] == "dlsuite-quick-h100-1" and found["workdir"] == str(REPOSITORY)
    resources = found["resources"]
    assert resources["infra"] == "aws/us-east-1" and resources["instance_type"] == "p5"
    assert resources["accelerators"] == "H100:1" and resources["use_spot"] is False
    assert resources["max_hourly_cost"] == 3
    assert resources["autostop"] == {"idle_minutes": 10, "down": True}
    assert "shutdown -P +95" in found["setup"]
    assert "timeout --signal INT --kill-after 60 3600" in found["run"]
    assert "dlsuite run quick --gpus 1 --max-time 1h" in found["run"]


def test_the_file_says_what_it_costs_and_how_it_is_used_by_hand() -> None:
    comments = [line for line in task().text.splitlines() if line.startswith("#")]
    assert "# 2.49 $ per hour, at most 95 minutes: 3.94 $." in comments
    assert any("sky launch --cluster dlsuite-quick-h100-1 --down task.yaml" in c for c in comments)
    assert any("sky down dlsuite-quick-h100-1" in line for line in comments)


def test_a_name_of_a_suite_is_no_command() -> None:
    dangerous = Task(
        name="n", offer=offer(), limits=limits(), suite_name="a; rm -rf /", max_time="1h"
    )
    assert "run 'a; rm -rf /' --gpus" in yaml.safe_load(dangerous.text)["run"]
