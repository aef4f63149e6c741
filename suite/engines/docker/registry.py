"""Images in a registry, named by the digest of their manifest and compared by their ids.

The digest depends on who pushed: registries and engines compress layers anew. The id is that of
the image's configuration, which records have; it is the same on every engine.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from suite.engines.docker.client import Image
from suite.engines.docker.images import Images
from suite.engines.recipe import CONTENT, Recipe
from suite.errors import EngineError, ManifestError
from suite.manifests.strict import Strict, first_problem
from suite.messages import Notify
from suite.paths import write_atomically


class Pushed(Strict):
    """An image in a registry."""

    reference: str  # REGISTRY/NAME@sha256:...
    image_id: str


class Pins(Strict):
    """The images of a push, by framework and kind of device."""

    images: dict[str, Pushed]


def push(images: Images, recipe: Recipe, registry: str, notify: Notify) -> Pushed:
    """Push the current image, built now if there is none; EngineError where that fails."""
    image = images.ready(recipe, notify)
    name = _name(recipe, registry)
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
    name = pushed.reference if pushed else _name(recipe, registry)
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


def read(file: Path) -> Pins:
    """The images of a push; ManifestError where the file has none."""
    try:
        return Pins.model_validate_json(file.read_bytes())
    except OSError as error:
        reason = error.strerror or "unreadable"
    except ValidationError as error:
        reason = first_problem(error)
    raise ManifestError(f"{file}: {reason}", hint="dlsuite images push REGISTRY writes it")


def write(file: Path, pushed: dict[str, Pushed]) -> None:
    """Write the images of a push; raise OSError where that fails."""
    write_atomically(file, json.dumps(Pins(images=pushed).model_dump(), indent=1) + "\n")


def _name(recipe: Recipe, registry: str) -> str:
    return f"{registry.rstrip('/')}/{recipe.exact_tag}"
