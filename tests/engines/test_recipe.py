"""The content of an image, and the names under which it is found."""

import hashlib
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from suite.engines.recipe import Recipe, base_image
from suite.manifests import catalog
from suite.paths import LOCKS
from tests.conftest import TINY, Tiny


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
    monkeypatch.setattr("suite.engines.recipe.LOCKS", docker)
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
    assert "@sha256:528257d4" in base_image()
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "mine:1")
    assert base_image() == "mine:1"


def test_the_name_of_an_exported_image_does_not_need_the_base_image(recipe: Recipe) -> None:
    other = replace(recipe, base="mine:1", base_id="sha256:1")
    assert other.file_name == recipe.file_name and recipe.file_name.startswith("tiny-cpu-")
    recipe.lock.write_text("# changed\n")
    assert replace(recipe).file_name != recipe.file_name


def test_neither_context_nor_digest_depends_on_the_umask_of_the_checkout(recipe: Recipe) -> None:
    before = recipe.content_sha256
    (recipe.worker / "__init__.py").chmod(0o600)
    recipe.lock.chmod(0o600)
    recipe.worker.chmod(0o700)
    closed = replace(recipe)
    with closed.context() as file, tarfile.open(fileobj=file) as tar:
        entries = list(tar)
    assert closed.content_sha256 == before
    assert {entry.mode for entry in entries if entry.isfile()} == {0o644}
    assert {entry.mode for entry in entries if entry.isdir()} == {0o755}
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries} == {(0, 0, 315532800)}
    (recipe.worker / "__init__.py").chmod(0o700)
    assert replace(recipe).content_sha256 != before


def test_a_framework_of_an_older_debian_has_a_base_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caffe = catalog.framework("caffe")
    monkeypatch.delenv("DLSUITE_BASE_IMAGE_BULLSEYE", raising=False)
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "mine:1")
    assert "debian:bullseye-slim@sha256:" in Recipe.of(caffe, "cpu").base
    monkeypatch.setenv("DLSUITE_BASE_IMAGE_BULLSEYE", "mine:2")
    assert Recipe.of(caffe, "cpu").base == "mine:2"
    assert Recipe.of(catalog.framework("jax"), "cpu").base == "mine:1"
