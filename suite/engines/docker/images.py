"""The images on a Docker engine: whether they are current, and how they are built."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from suite.engines import pip_settings
from suite.engines.docker.client import Daemon, Image
from suite.engines.pip import PipOutput, answers
from suite.engines.recipe import (
    CONTENT,
    DEVICE,
    FRAMEWORK,
    OURS,
    Kind,
    Recipe,
    base_image,
    base_variable,
)
from suite.errors import EngineError
from suite.manifests.frameworks import USUAL_BASE, FrameworkManifest
from suite.messages import Notify
from suite.paths import LOCKS, WORKER, home

# Settings of pip and of a proxy, passed to a build but not stored in the image.
BUILD_ARGUMENTS = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
    "timeout": "PIP_DEFAULT_TIMEOUT",
    "default-timeout": "PIP_DEFAULT_TIMEOUT",
    "retries": "PIP_RETRIES",
}
PROXY_ARGUMENTS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")


class Images:
    """The images on one engine; usable from several threads."""

    def __init__(
        self, daemon: Daemon, *, locks: Path = LOCKS, worker: Path = WORKER, tagged: bool = True
    ) -> None:
        """`tagged`: whether new images get the tag for users."""
        self.daemon = daemon
        self._locks = locks
        self._worker = worker
        self._tagged = tagged
        self._base_lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the builds in other threads, and refuse new ones."""
        self._stopped.set()

    def recipe(self, manifest: FrameworkManifest, kind: Kind) -> Recipe:
        """The recipe; FrameworkUnavailable if the framework has no lock for this kind of device."""
        name = base_image(manifest.base)
        base = self.daemon.image(name) if "@sha256:" not in name else None
        return Recipe.of(
            manifest,
            kind,
            base_id=base.image_id if base else None,
            locks=self._locks,
            worker=self._worker,
        )

    def current(self, recipe: Recipe) -> Image | None:
        """The image with exactly this content, if there is one."""
        image = self.daemon.image(recipe.exact_tag)
        return image if image and image.labels.get(CONTENT) == recipe.content_sha256 else None

    def reject(self, recipe: Recipe, image: Image) -> None:
        """Mark a broken image, so that no checkout takes it as current, and `ready` replaces it."""
        self.daemon.tag(image.image_id, recipe.broken_tag)
        self.daemon.remove_tag(recipe.exact_tag)

    def stale(self, recipe: Recipe) -> Image | None:
        """The newest image of this framework and kind with another content, if there is one."""
        images = self.daemon.images({**OURS, FRAMEWORK: recipe.framework, DEVICE: recipe.kind})
        content = recipe.content_sha256
        return next((image for image in images if image.labels.get(CONTENT) != content), None)

    def was_built(self, recipe: Recipe) -> bool:
        """Whether there is an image of this framework and kind: current, stale or broken."""
        return bool(self.daemon.images({**OURS, FRAMEWORK: recipe.framework, DEVICE: recipe.kind}))

    def absence(self, recipe: Recipe) -> str:
        """Why there is no current image: it is stale, with the parts that differ, or not built."""
        if self.daemon.image(recipe.broken_tag):
            return "broken"
        stale = self.stale(recipe)
        if stale is None:
            return "not built"
        differences = recipe.differences(stale.labels)
        return f"stale, changed: {', '.join(differences)}" if differences else "stale"

    def ready(self, recipe: Recipe, notify: Notify) -> Image:
        """The current image, built now if there is none; EngineError if the build fails."""
        return self.current(recipe) or self.build(recipe, notify)

    def build_obstacle(self) -> str | None:
        """Why no image can be built: the base image is missing. None if images can be built."""
        base = base_image()
        if self.daemon.image(base) or self.daemon.pullable(base):
            return None
        return f"its base image {base.partition('@')[0]} is missing and cannot be pulled"

    def build(self, recipe: Recipe, notify: Notify, *, fresh: bool = False) -> Image:
        """Build it, even if it is current; EngineError with pip's or the engine's reason.

        `fresh`: without the engine's cache, which would give the same image again. An image that
        `images verify` found broken is built so, and removed afterwards.
        """
        broken = self.daemon.image(recipe.broken_tag)
        self._require_base(recipe, notify)
        notify(f"{recipe.manifest.title}: building its image ({recipe.tag})")
        log = log_path(recipe)
        log.parent.mkdir(parents=True, exist_ok=True)
        output = PipOutput(recipe.manifest.title, notify)
        with recipe.context() as context, log.open("w", encoding="utf-8") as file:

            def on_line(line: str) -> None:
                file.write(f"{line}\n")
                output.line(line)

            reason = self.daemon.build(
                context,
                tag=recipe.exact_tag,
                labels=recipe.labels,
                arguments=_arguments(recipe),
                network=os.environ.get("DLSUITE_BUILD_NETWORK"),
                fresh=fresh or broken is not None,
                on_line=on_line,
                stopped=self._stopped,
            )
        built = self.current(recipe)
        if reason or built is None:
            raise EngineError(
                f"the image of {recipe.manifest.title} cannot be built: {output.error or reason}",
                hint=f"see {log}; behind a proxy see docs/reference/containers.md",
            )
        if self._tagged:
            self.daemon.tag(built.image_id, recipe.tag)
        if broken and broken.image_id != built.image_id:
            with suppress(EngineError):  # a container may use it
                self.daemon.remove_image(broken.image_id)
        return built

    def _require_base(self, recipe: Recipe, notify: Notify) -> None:
        with self._base_lock:
            if self.daemon.image(recipe.base):
                return
            notify(f"pulling the base image {recipe.base}")
            try:
                self.daemon.pull(recipe.base, self._stopped)
            except EngineError as error:
                raise EngineError(
                    f"the base image {recipe.base} cannot be pulled: {error}",
                    hint=_own_base(recipe.manifest.base),
                ) from None


def _own_base(base: str) -> str:
    """How to make a base image without a registry."""
    release = "bookworm" if base == USUAL_BASE else base
    return (
        f"without a registry: scripts/base-image {release}, then"
        f" export {base_variable(base)}=dlsuite-base:{release}"
    )


def log_path(recipe: Recipe) -> Path:
    """The log of the image's last build."""
    return home() / "logs" / f"image-{recipe.framework}-{recipe.kind}.log"


def _arguments(recipe: Recipe) -> dict[str, str]:
    arguments = {"BASE_IMAGE": recipe.base, "FRAMEWORK": recipe.framework, "DEVICE": recipe.kind}
    if recipe.manifest.is_debians:
        arguments["VENV_OPTIONS"] = "--system-site-packages"
    settings = pip_settings.settings()
    for setting, argument in BUILD_ARGUMENTS.items():
        # A build does not see the folders of this machine.
        values = [each for each in settings.get(setting, "").split() if "file:" not in each]
        if values:
            arguments[argument] = " ".join(values)
    for name in (*PROXY_ARGUMENTS, *map(str.lower, PROXY_ARGUMENTS)):
        if os.environ.get(name):
            arguments[name] = os.environ[name]
    index = recipe.manifest.cpu_index
    if index and recipe.kind == "cpu" and answers(index):
        extra = (arguments.get("PIP_EXTRA_INDEX_URL", ""), index)
        arguments["PIP_EXTRA_INDEX_URL"] = " ".join(filter(None, extra))
    return arguments
