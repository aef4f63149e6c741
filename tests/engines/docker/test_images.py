"""Building images on a real engine, and when one is stale."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from suite.engines.docker.client import Daemon
from suite.engines.docker.images import Images
from suite.engines.errors import FrameworkUnavailable
from suite.errors import EngineError
from tests.conftest import TINY, Tiny, script_worker


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    with closing(Daemon()) as opened:
        yield opened


@pytest.mark.docker
def test_an_image_with_another_worker_is_stale_and_a_new_one_is_built(
    daemon: Daemon, tiny: Tiny, tmp_path: Path
) -> None:
    before = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    old = before.ready(before.recipe(TINY, "cpu"), print)
    changed = script_worker(tmp_path / "changed", 'exec(trial["script"])  # changed')
    after = Images(daemon, locks=tiny.locks, worker=changed)
    recipe = after.recipe(TINY, "cpu")
    assert after.current(recipe) is None
    stale = after.stale(recipe)
    assert stale is not None and stale.image_id == old.image_id
    new = after.ready(recipe, print)
    try:
        assert new.image_id != old.image_id and new.labels == recipe.labels
        assert recipe.exact_tag in new.tags
        tagged = daemon.image(recipe.tag)
        assert tagged is not None and tagged.image_id == new.image_id
        messages: list[str] = []
        assert after.ready(recipe, messages.append).image_id == new.image_id and messages == []
    finally:
        daemon.remove_image(new.image_id)


@pytest.mark.docker
def test_the_check_reads_the_content_of_an_image_not_its_labels(tiny: Tiny, home: Path) -> None:
    with tiny.engine() as engine:
        recipe = engine.images.recipe(TINY, "cpu")
        image = engine.images.ready(recipe, print)
        problem = engine.check(recipe, image)
        assert problem is not None and "Tiny fails to import: ModuleNotFoundError" in problem
        engine.worker_sha256 = "0" * 64
        problem = engine.check(recipe, image)
        assert problem == "its worker differs from the one that its label names"


@pytest.mark.docker
def test_an_image_that_was_found_broken_is_built_again(tiny: Tiny, home: Path) -> None:
    with tiny.engine() as engine:
        images = engine.images
        recipe = images.recipe(TINY, "cpu")
        broken = images.ready(recipe, print)
        images.reject(recipe, broken)
        assert images.current(recipe) is None and images.absence(recipe) == "broken"
        built = images.ready(recipe, print)
        current = images.current(recipe)
        assert current is not None and current.image_id == built.image_id != broken.image_id
        assert engine.daemon.image(recipe.broken_tag) is None


@pytest.mark.docker
def test_a_base_image_that_cannot_be_pulled_is_an_error_with_a_hint(
    daemon: Daemon, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "127.0.0.1:1/none:1"
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", base)
    tiny_images = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    with pytest.raises(EngineError, match=f"base image {base} cannot") as caught:
        tiny_images.ready(tiny_images.recipe(TINY, "cpu"), print)
    assert "scripts/base-image" in caught.value.hint
    obstacle = f"its base image {base} is missing and cannot be pulled"
    assert tiny_images.build_obstacle() == obstacle


@pytest.mark.docker
def test_a_pull_from_a_registry_that_hangs_can_be_stopped(
    daemon: Daemon, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        base = f"127.0.0.1:{silent.getsockname()[1]}/none:1"
        monkeypatch.setenv("DLSUITE_BASE_IMAGE", base)
        images = Images(daemon, locks=tiny.locks, worker=tiny.worker)
        pulling = pool.submit(images.ready, images.recipe(TINY, "cpu"), print)
        connection, _ = silent.accept()
        with connection:
            images.stop()
            with pytest.raises(EngineError, match="cannot be pulled: stopped"):
                pulling.result(timeout=60)


@pytest.mark.docker
def test_a_lock_that_cannot_be_installed_is_an_error_with_pips_reason(
    daemon: Daemon, tiny: Tiny, tmp_path: Path
) -> None:
    locks = tmp_path / "locks"
    shutil.copytree(tiny.locks, locks)
    (locks / "tiny" / "cpu.txt").write_text(f"no-such-thing==1 --hash=sha256:{'0' * 64}\n")
    tiny_images = Images(daemon, locks=locks, worker=tiny.worker)
    with pytest.raises(EngineError, match="image of Tiny cannot be built: No matching") as caught:
        tiny_images.ready(tiny_images.recipe(TINY, "cpu"), print)
    assert "image-tiny-cpu.log" in caught.value.hint


@pytest.mark.docker
def test_a_framework_without_a_lock_for_the_device_is_unavailable(
    daemon: Daemon, tiny: Tiny
) -> None:
    tiny_images = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    with pytest.raises(FrameworkUnavailable, match="Tiny has no lock for cuda"):
        tiny_images.recipe(TINY, "cuda")
