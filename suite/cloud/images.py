"""The images that a machine pulls, so that it builds none."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping

from suite.engines.docker import lookup, pins
from suite.engines.docker.pins import Pushed
from suite.engines.errors import FrameworkUnavailable
from suite.engines.recipe import KINDS, Kind, Recipe, base_image, base_variable
from suite.errors import ResultsError, UsageError
from suite.manifests import catalog
from suite.parity import workers
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions


def needed(
    suite: str, options: Iterable[str], *, gpus: int, variables: Mapping[str, str]
) -> list[Recipe]:
    """The images of a run: those of its frameworks, and of the reference of its proofs.

    `options` are those of `dlsuite run`, `variables` those of the environment on the machine.
    UsageError where the run uses no images, or the machine would not find the same ones.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--framework", "-f", action="append", default=[])
    parser.add_argument("--engine", default="docker")
    chosen, _ = parser.parse_known_args([*options])
    if chosen.engine not in ("auto", "docker"):
        raise UsageError(f"--engine {chosen.engine} runs no images", hint="omit it, or --images")
    kind: Kind = KINDS[bool(gpus)]
    plan = plan_of(
        suite,
        RunOptions(frameworks=tuple(chosen.framework)),
        device=f"cuda:{gpus}" if gpus else "cpu",
        separate_nodes=True,  # the CPU of the machine is not this one
    )
    recipes = []
    for name in sorted({*plan.frameworks, *workers.FRAMEWORKS}):
        manifest = catalog.framework(name)
        _same_base(base_variable(manifest.base), variables)
        try:
            recipes.append(Recipe.of(manifest, kind, base_id=_base_id(manifest.base)))
        except FrameworkUnavailable:
            continue  # the run skips it
    return recipes


def pushed(recipes: Iterable[Recipe], registry: str) -> dict[str, Pushed]:
    """The images of these recipes in a registry; ResultsError where some are not there."""
    found = [(each, lookup.image(pins.name(each, registry))) for each in recipes]
    if lacking := [each.framework for each, image in found if image is None]:
        kind = found[0][0].kind
        names = " ".join(f"--framework {each}" for each in lacking)
        raise ResultsError(
            f"{registry} has no {kind} images of this checkout for {', '.join(lacking)}",
            hint=f"dlsuite images push {registry} --device {kind} {names}",
        )
    return {pins.key(each): image for each, image in found if image}


def _same_base(variable: str, variables: Mapping[str, str]) -> None:
    """The content of an image has its base image; UsageError where the machine has another."""
    here = os.environ.get(variable)
    if here != variables.get(variable):
        raise UsageError(
            f"{variable} is {here or 'not set'} here, {variables.get(variable) or 'not set'} on the"
            " machine: it would not take the images",
            hint=f"--env {variable}={here}" if here else f"without --env {variable}",
        )


def _base_id(base: str) -> str | None:
    """The id of a base image whose name has no digest, which the engine here knows."""
    name = base_image(base)
    if "@sha256:" in name:
        return None
    from suite.engines.docker.client import Daemon  # only here: it imports the SDK

    daemon = Daemon()
    try:
        image = daemon.image(name)
    finally:
        daemon.close()
    return image.image_id if image else None
