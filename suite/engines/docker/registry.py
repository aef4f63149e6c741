"""Pushes images to a registry, and pulls them (suite/engines/docker/pins.py)."""

from __future__ import annotations

from suite.engines.docker import pins
from suite.engines.docker.client import Image
from suite.engines.docker.images import Images
from suite.engines.docker.pins import Pushed
from suite.engines.recipe import CONTENT, Recipe
from suite.errors import EngineError
from suite.messages import Notify


def push(images: Images, recipe: Recipe, registry: str, notify: Notify) -> Pushed:
    """Push the current image, built now if there is none; EngineError where that fails."""
    image = images.ready(recipe, notify)
    name = pins.name(recipe, registry)
    images.daemon.tag(image.image_id, name)
    try:
        digest = images.daemon.push(name)
    finally:
        images.daemon.remove_tag(name)
    return Pushed(reference=f"{name.rpartition(':')[0]}@{digest}", image_id=image.image_id)


def pull(images: Images, recipe: Recipe, registry: str, pushed: Pushed | None) -> Image:
    """Pull an image and make it current, so that nothing is built.

    With `pushed`, by its digest; else by the tag of its content. Raise EngineError where it is not
    there, has another content than this checkout, or another id than `pushed`.
    """
    name = pushed.reference if pushed else pins.name(recipe, registry)
    images.daemon.pull(name)
    image = images.daemon.image(name)
    if image is None:
        raise EngineError(
            f"{name} was pulled, but the engine has no such image", hint="docker images"
        )
    if image.labels.get(CONTENT) != recipe.content_sha256:
        differing = ", ".join(recipe.differences(image.labels)) or "its labels"
        raise EngineError(
            f"{name} is not the image of this checkout: {differing}",
            hint="pull in the checkout that pushed it, or dlsuite images build",
        )
    if pushed and image.image_id != pushed.image_id:
        raise EngineError(
            f"{name} has the id {image.image_id}, the pushed image {pushed.image_id}",
            hint="do not use it: the registry has another image",
        )
    for tag in (recipe.exact_tag, recipe.tag):
        images.daemon.tag(image.image_id, tag)
    return images.current(recipe) or image
