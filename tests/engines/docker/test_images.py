"""What an image is made of and when it is stale; then the same on a real engine."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from suite.engines.base import FrameworkUnavailable
from suite.engines.docker import images
from suite.engines.docker.client import Daemon
from suite.engines.docker.images import Images, Recipe
from suite.errors import EngineError
from suite.paths import LOCKS
from suite.worker.frameworks import MODULES
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


def test_whatever_an_image_holds_is_in_its_content(recipe: Recipe) -> None:
    before = recipe.content_sha256
    assert replace(recipe, base_id="sha256:1").content_sha256 != before
    for path in (recipe.lock, recipe.lock.with_name("apt.txt"), recipe.worker / "__main__.py"):
        text = path.read_text()
        path.write_text(text + "# changed\n")
        assert replace(recipe).content_sha256 != before, path
        assert recipe.content_sha256 == before  # what it was when it was first asked
        path.write_text(text)
    assert replace(recipe).content_sha256 == before


def test_the_context_holds_what_the_recipe_copies_and_nothing_else(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the local wheels only those that the lock wants, by their hash."""
    place = tmp_path / "docker"
    for name in ("certs", "wheels"):
        (place / name).mkdir(parents=True)
    shutil.copy(LOCKS / "Dockerfile", place)
    (place / "certs" / "company.crt").write_text("certificate")
    for name in ("wanted", "other"):
        (place / "wheels" / f"{name}-1-py3-none-any.whl").write_text(name)
    wanted = hashlib.sha256(b"wanted").hexdigest()
    recipe.lock.write_text(f"engine_options==1 --hash=sha256:{wanted}\n")
    (recipe.worker / "__pycache__").mkdir()
    monkeypatch.setattr(images, "LOCKS", place)
    with recipe.context() as file, tarfile.open(fileobj=file) as tar:
        names = {entry.name for entry in tar if entry.isfile()}
    assert names == {
        "docker/Dockerfile",
        "docker/tiny/cpu.txt",
        "docker/tiny/apt.txt",
        "docker/certs/company.crt",
        "docker/wheels/wanted-1-py3-none-any.whl",
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
def test_a_stale_image_is_never_taken_for_a_current_one(
    daemon: Daemon, tiny: Tiny, tmp_path: Path
) -> None:
    """Another worker: the image of the old one is stale, and a new one is built."""
    said: list[str] = []
    before = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    old = before.ready(before.recipe(TINY, "cpu"), said.append)
    changed = script_worker(tmp_path / "changed", 'exec(trial["script"])  # changed')
    after = Images(daemon, locks=tiny.locks, worker=changed)
    recipe = after.recipe(TINY, "cpu")
    assert after.current(recipe) is None
    stale = after.stale(recipe)
    assert stale is not None and stale.image_id == old.image_id
    new = after.ready(recipe, said.append)
    try:
        assert new.image_id != old.image_id and new.labels == recipe.labels
        assert recipe.exact_tag in new.tags
        tagged = daemon.image(recipe.tag)
        assert tagged is not None and tagged.image_id == new.image_id
        again: list[str] = []
        assert after.ready(recipe, again.append).image_id == new.image_id and again == []
    finally:
        daemon.remove_image(new.image_id)


@pytest.mark.docker
def test_verifying_looks_into_the_image_not_at_its_label(
    tiny: Tiny, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULES, "tiny", ".frameworks.tiny")
    with tiny.engine() as engine:
        recipe = engine.images.recipe(TINY, "cpu")
        image = engine.images.ready(recipe, print)
        problem = engine.check(recipe, image)
        assert problem is not None and "Tiny does not import: ModuleNotFoundError" in problem
        engine.worker_sha256 = "0" * 64
        assert engine.check(recipe, image) == "holds another worker than its label says"


@pytest.mark.docker
def test_a_base_image_that_cannot_be_pulled_is_one_clear_error(
    daemon: Daemon, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "127.0.0.1:1/none:1")
    found = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    with pytest.raises(EngineError, match=r"base image 127\.0\.0\.1:1/none:1 cannot") as error:
        found.ready(found.recipe(TINY, "cpu"), print)
    assert "scripts/base-image" in error.value.hint
    assert found.can_build() == "its base image 127.0.0.1:1/none:1 is not here and cannot be pulled"


@pytest.mark.docker
def test_a_lock_that_cannot_be_installed_is_named_by_pips_reason(
    daemon: Daemon, tiny: Tiny, tmp_path: Path
) -> None:
    locks = tmp_path / "locks"
    shutil.copytree(tiny.locks, locks)
    (locks / "tiny" / "cpu.txt").write_text(f"no-such-thing==1 --hash=sha256:{'0' * 64}\n")
    found = Images(daemon, locks=locks, worker=tiny.worker)
    with pytest.raises(EngineError, match="image of Tiny cannot be built: No matching") as error:
        found.ready(found.recipe(TINY, "cpu"), print)
    assert "image-tiny-cpu.log" in error.value.hint


@pytest.mark.docker
def test_a_framework_without_a_lock_for_the_device_is_unavailable(
    daemon: Daemon, tiny: Tiny
) -> None:
    found = Images(daemon, locks=tiny.locks, worker=tiny.worker)
    with pytest.raises(FrameworkUnavailable, match="Tiny has no lock for cuda"):
        found.recipe(TINY, "cuda")
