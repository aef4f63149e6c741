"""Images pushed to and pulled from a registry of this machine, Debian's docker-registry."""

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from suite.engines.attempt import free_port
from suite.engines.docker import pins, registry
from suite.engines.docker.client import Daemon
from suite.engines.docker.images import Images
from suite.engines.docker.pins import Pushed
from suite.errors import EngineError, ManifestError
from suite.manifests import catalog

pytestmark = [pytest.mark.docker, pytest.mark.verify]
CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: error}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("docker-registry")
    if program is None:
        if os.environ.get("DLSUITE_REQUIRE_DOCKER"):
            pytest.fail("docker-registry is not installed")
        pytest.skip("docker-registry is not installed")
    folder, port = tmp_path_factory.mktemp("registry"), free_port()
    file = folder / "config.yml"
    file.write_text(CONFIGURATION.format(folder=folder / "data", port=port))
    process = subprocess.Popen([program, "serve", str(file)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/"):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}/lab"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def images() -> Iterator[Images]:
    daemon = Daemon()
    yield Images(daemon)
    daemon.close()


def test_an_image_is_pulled_by_digest_and_is_current(images: Images, address: str) -> None:
    recipe = images.recipe(catalog.framework("onnxruntime"), "cpu")
    pushed = registry.push(images, recipe, address, lambda text: None)
    assert pushed.reference.startswith(f"{address}/dlsuite/onnxruntime@sha256:")
    images.daemon.remove_tag(recipe.exact_tag)
    images.daemon.remove_tag(recipe.tag)
    assert images.current(recipe) is None
    for pin in (pushed, None):
        image = registry.pull(images, recipe, address, pin)
        assert image.image_id == pushed.image_id
        assert images.current(recipe) == image and recipe.tag in image.tags
    other = images.recipe(catalog.framework("openvino"), "cpu")
    with pytest.raises(EngineError, match=r"is not the image of this checkout: .*lock"):
        registry.pull(images, other, address, pushed)
    wrong = Pushed(reference=pushed.reference, image_id="sha256:0")
    with pytest.raises(EngineError, match=r"has the id .* the pushed image"):
        registry.pull(images, recipe, address, wrong)


def test_a_registry_that_lacks_the_image_is_an_error(images: Images, address: str) -> None:
    recipe = images.recipe(catalog.framework("openvino"), "cpu")
    with pytest.raises(EngineError):
        registry.pull(images, recipe, address, None)
    with pytest.raises(EngineError, match=r"refused|cannot be pushed"):
        registry.push(images, recipe, f"127.0.0.1:{free_port()}/lab", lambda text: None)


@pytest.mark.parametrize("text", [None, "", "{}", '{"images": {"a": 1}}'])
def test_a_file_without_images_is_one_line(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "images.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ManifestError, match=r"images\.json"):
        pins.read(file)
