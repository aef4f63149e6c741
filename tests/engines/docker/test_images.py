"""The content of an image, and when it is stale; then the same on a real engine."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from suite.engines.docker import images
from suite.engines.docker.client import Daemon
from suite.engines.docker.images import Images, Recipe
from suite.engines.errors import FrameworkUnavailable
from suite.errors import EngineError
from suite.paths import LOCKS
from tests.conftest import TINY, Tiny, script_worker


@pytest.fixture
def recipe(tiny: Tiny, tmp_path: Path) -> Recipe:
    locks = tmp_path / "locks"
    shutil.copytree(tiny.locks, locks)
    worker = tmp_path / "worker"
    shutil.copytree(tiny.worker, worker)
    return Recipe(
        manifest=TINY, kind="cpu", base="base", base_id="sha256:0", locks=locks, worker=worker
    )


def test_the_content_digest_covers_every_part_of_an_image(recipe: Recipe) -> None:
    before = recipe.content_sha256
    assert replace(recipe, base_id="sha256:1").content_sha256 != before
    for path in (recipe.lock, recipe.lock.with_name("apt.txt"), recipe.worker / "__main__.py"):
        text = path.read_text()
        path.write_text(text + "# changed\n")
        assert replace(recipe).content_sha256 != before, path
        assert recipe.content_sha256 == before  # it is computed once
        path.write_text(text)
    assert replace(recipe).content_sha256 == before


def test_the_context_contains_only_the_files_that_the_recipe_copies(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the local wheels it contains only those whose hash is in the lock."""
    docker = tmp_path / "docker"
    for name in ("certs", "wheels"):
        (docker / name).mkdir(parents=True)
    shutil.copy(LOCKS / "Dockerfile", docker)
    (docker / "certs" / "company.crt").write_text("certificate")
    for name in ("locked", "other"):
        (docker / "wheels" / f"{name}-1-py3-none-any.whl").write_text(name)
    sha256 = hashlib.sha256(b"locked").hexdigest()
    recipe.lock.write_text(f"locked==1 --hash=sha256:{sha256}\n")
    (recipe.worker / "__pycache__").mkdir()
    monkeypatch.setattr(images, "LOCKS", docker)
    with recipe.context() as file, tarfile.open(fileobj=file) as tar:
        names = {entry.name for entry in tar if entry.isfile()}
    assert names == {
        "docker/Dockerfile",
        "docker/tiny/cpu.txt",
        "docker/tiny/apt.txt",
        "docker/certs/company.crt",
        "docker/wheels/locked-1-py3-none-any.whl",
        "suite/worker/__main__.py",
        "suite/worker/__init__.py",
    }


def test_the_base_image_is_pinned_by_digest_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DLSUITE_BASE_IMAGE", raising=False)
    assert "@sha256:528257d4" in images.base_image()
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "mine:1")
    assert images.base_image() == "mine:1"


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
