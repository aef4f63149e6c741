"""Frameworks that are packages of an older Debian release: only in containers."""

import os
from pathlib import Path

import pytest

from suite.engines.docker.client import Daemon
from suite.engines.docker.images import Images
from suite.engines.recipe import base_image
from suite.manifests import catalog
from suite.runner import conformance

pytestmark = [pytest.mark.docker, pytest.mark.verify]
CAFFE = catalog.framework("caffe")


@pytest.fixture(scope="module")
def image() -> str:
    """The id of Caffe's image."""
    daemon = Daemon()
    base = base_image(CAFFE.base)
    if not (daemon.image(base) or daemon.pullable(base)):
        pytest.skip(f"the base image {base} is not here and cannot be pulled")
    images = Images(daemon)
    return images.ready(images.recipe(CAFFE, "cpu"), print).image_id


def test_the_worker_conforms_in_its_container(image: str, tmp_path: Path) -> None:
    """Its folder has the same path inside."""
    place = os.environ.get("TMPDIR", "/tmp")
    command = ["docker", "run", "--rm", "--user", "0", "--volume", f"{place}:{place}", image]
    assert conformance.check(command, framework="caffe") == []
