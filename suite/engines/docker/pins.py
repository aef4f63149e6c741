"""Images in a registry, named by the digest of their manifest and compared by their ids.

The digest depends on who pushed: registries and engines compress layers anew. The id is that of
the image's configuration, which records have; it is the same on every engine.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from suite.engines.recipe import Recipe
from suite.errors import ManifestError
from suite.manifests.strict import Strict, first_problem
from suite.paths import write_atomically


class Pushed(Strict):
    """An image in a registry."""

    reference: str  # REGISTRY/NAME@sha256:...
    image_id: str


class Pins(Strict):
    """The images of a push, by framework and kind of device."""

    images: dict[str, Pushed]


def key(recipe: Recipe) -> str:
    """The key of a recipe's image: `pytorch-cuda`."""
    return f"{recipe.framework}-{recipe.kind}"


def name(recipe: Recipe, registry: str) -> str:
    """The name of a recipe's image in a registry; its tag has the digest of the content."""
    return f"{registry.rstrip('/')}/{recipe.exact_tag}"


def read(file: Path) -> Pins:
    """The images of a push; ManifestError where the file has none."""
    try:
        return Pins.model_validate_json(file.read_bytes())
    except OSError as error:
        reason = error.strerror or "unreadable"
    except ValidationError as error:
        reason = first_problem(error)
    raise ManifestError(f"{file}: {reason}", hint="dlsuite images push REGISTRY writes it")


def write(file: Path, pins: Pins) -> None:
    """Write the images of a push; raise OSError where that fails."""
    write_atomically(file, pins.model_dump_json(indent=1) + "\n")
