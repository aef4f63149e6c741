"""A task with images, from the registry to its records, on this machine instead of a rented one.

The registry is Debian's docker-registry. SkyPilot would copy two files and run two scripts: this
test does.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from suite.cloud import images as of_cloud
from suite.cloud.task import OFFER, OFFER_FILE, PINS, PINS_FILE, RESULTS
from suite.engines.docker import registry
from suite.engines.docker.images import Images
from suite.engines.docker.pins import Pins
from suite.engines.recipe import BASE_VARIABLE
from suite.errors import ResultsError
from suite.paths import REPOSITORY, home
from suite.results import rental, store
from tests.cloud.test_offers import offer
from tests.cloud.test_task import task
from tests.engines.docker.test_registry import address, images

__all__ = ["address", "images"]
pytestmark = [pytest.mark.docker, pytest.mark.verify]
OPTIONS = ("--framework", "pytorch", "--repeats", "1")


def test_a_machine_pulls_its_images_and_builds_none(
    images: Images, address: str, tmp_path: Path
) -> None:
    base = os.environ.get(BASE_VARIABLE)
    variables = {BASE_VARIABLE: base} if base else {}
    recipes = of_cloud.needed("quick", OPTIONS, gpus=0, variables=variables)
    assert [each.framework for each in recipes] == ["jax", "pytorch"]
    with pytest.raises(ResultsError, match="has no cpu images of this checkout for jax, pytorch"):
        of_cloud.pushed(recipes, address)
    pushed = {each.framework: registry.push(images, each, address, print) for each in recipes}
    pins = Pins(images=of_cloud.pushed(recipes, address))
    assert pins.images == {f"{name}-cpu": each for name, each in pushed.items()}

    # A Slurm partition: the task of a machine of its own would power it off.
    place = offer(0.08, cloud="slurm", region="loop", zone="cheap", accelerator=None, count=0)
    made = task(offered=place, options=OPTIONS, variables=variables, registry=address, pins=pins)
    made.write(tmp_path)
    (tmp_path / OFFER_FILE).rename(tmp_path / OFFER)
    (tmp_path / PINS_FILE).rename(tmp_path / PINS)
    for each in recipes:
        images.daemon.remove_tag(each.exact_tag)
        images.daemon.remove_tag(each.tag)
    found = yaml.safe_load(made.text(tmp_path))
    environment = {
        **os.environ,
        "DLSUITE_HOME": str(home()),
        "HOME": str(tmp_path),
        **found["envs"],
    }
    for part in ("setup", "run"):
        done = subprocess.run(
            ["bash", "-c", found[part]],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "building its image" not in done.stdout + done.stderr
    [record] = store.read_all(next((tmp_path / RESULTS).glob("2*-quick")))
    assert record.image_id == pushed["pytorch"].image_id
    rented = rental.of_environment(record.environment)
    assert rented and rented.images == address
    assert json.loads((tmp_path / PINS).read_text())["images"]["jax-cpu"]["image_id"]
