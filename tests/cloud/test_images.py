"""The images that a machine needs, and whether a registry has them."""

from collections.abc import Iterable

import pytest

from suite.cloud import images
from suite.engines.docker import pins
from suite.engines.recipe import BASE_VARIABLE, Recipe
from suite.errors import ResultsError, UsageError
from suite.manifests import catalog
from tests.engines.docker.test_lookup import MANIFEST, Registry, registry

__all__ = ["registry"]


@pytest.fixture(autouse=True)
def pinned_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base image has a digest, so that no engine is asked."""
    monkeypatch.delenv(BASE_VARIABLE, raising=False)


def needed(*options: str, suite: str = "quick", gpus: int = 0) -> list[Recipe]:
    return images.needed(suite, options, gpus=gpus, variables={})


def put(into: Registry, recipes: Iterable[Recipe]) -> None:
    """The images of these recipes are in the folder `lab` of the registry."""
    for each in recipes:
        name, _, tag = each.exact_tag.rpartition(":")
        into.manifests[f"/v2/lab/{name}/manifests/{tag}"] = MANIFEST


def test_a_run_needs_its_frameworks_and_those_of_the_reference() -> None:
    names = [pins.key(each) for each in needed()]
    assert names == ["jax-cpu", "mxnet-cpu", "pytorch-cpu", "tensorflow-cpu"]
    names = [pins.key(each) for each in needed("--repeats", "2", "-f", "keras:jax/tuned", gpus=2)]
    assert names == ["jax-cuda", "keras-cuda", "pytorch-cuda"]
    # OpenVINO has no lock for CUDA: the run skips it.
    names = [pins.key(each) for each in needed("--framework=openvino", suite="zoo", gpus=1)]
    assert names == ["jax-cuda", "pytorch-cuda"]


def test_a_machine_that_would_not_take_the_images_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match="--engine venv runs no images"):
        needed("--engine", "venv")
    with pytest.raises(UsageError, match="unknown framework 'nosuch'"):
        needed("--framework", "nosuch")
    monkeypatch.setenv(BASE_VARIABLE, "own@sha256:1")
    with pytest.raises(UsageError, match=r"IMAGE is own@sha256:1 here, not set on the machine"):
        needed()
    variables = {BASE_VARIABLE: "own@sha256:1"}
    assert len(images.needed("quick", (), gpus=0, variables=variables)) == 4


def test_images_that_are_lacking_are_named_with_the_command_that_pushes_them(
    registry: Registry,
) -> None:
    recipes = needed()
    put(registry, [each for each in recipes if each.framework in ("jax", "mxnet")])
    place = f"{registry.address}/lab/"
    with pytest.raises(ResultsError, match=r"has no cpu images .* for pytorch, tensorflow") as no:
        images.pushed(recipes, place)
    assert no.value.hint == (
        f"dlsuite images push {place} --device cpu --framework pytorch --framework tensorflow"
    )
    put(registry, recipes)
    found = images.pushed(recipes, place)
    assert set(found) == {"jax-cpu", "mxnet-cpu", "pytorch-cpu", "tensorflow-cpu"}
    reference = found["jax-cpu"].reference
    assert reference.startswith(f"{registry.address}/lab/dlsuite/jax@sha256:")
    assert found["jax-cpu"].image_id == "sha256:abc"


def test_an_image_of_another_content_is_not_found(registry: Registry) -> None:
    [recipe] = [each for each in needed() if each.framework == "jax"]
    put(registry, [recipe])
    other = Recipe.of(catalog.framework("jax"), "cpu", base_id="another base")
    with pytest.raises(ResultsError, match="for jax"):
        images.pushed([other], f"{registry.address}/lab")
