"""The images: their content, whether they are current, and how they are built."""

from __future__ import annotations

import os
import tarfile
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal

from suite.engines.docker.client import Daemon, Image
from suite.engines.errors import FrameworkUnavailable
from suite.engines.pip import PipOutput, answers
from suite.errors import EngineError, unknown
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.paths import LOCKS, WORKER, digest, home, sha256, tree_sha256

Kind = Literal["cpu", "cuda"]
KINDS: tuple[Kind, ...] = ("cpu", "cuda")

# Labels of the images. The recipe labels build stages with `dlsuite=stage`.
OURS = {"dlsuite": "image"}
STAGE = "dlsuite=stage"
CONTENT, FRAMEWORK, DEVICE = "dlsuite.content", "dlsuite.framework", "dlsuite.device"
BASE = "dlsuite.base"  # the base image's name
PART = "dlsuite.made-of."  # followed by a part's name: the digest of that part
BASE_VARIABLE = "DLSUITE_BASE_IMAGE"
IMAGE_WORKER = "/opt/dlsuite/suite/worker"

# Settings of pip and of a proxy, passed to a build but not stored in the image.
BUILD_ARGUMENTS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
PROXY_ARGUMENTS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")


def base_image() -> str:
    """The base image: $DLSUITE_BASE_IMAGE, or the one in docker/pins.toml."""
    pins = tomllib.loads((LOCKS / "pins.toml").read_text(encoding="utf-8"))
    return os.environ.get(BASE_VARIABLE) or str(pins["base"]["image"])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines the content of an image."""

    manifest: FrameworkManifest
    kind: Kind
    base: str  # the reference for FROM
    base_id: str  # the same if it is pinned by digest, else an image id
    locks: Path = LOCKS
    worker: Path = WORKER

    @property
    def framework(self) -> str:
        """The framework's name."""
        return self.manifest.name

    @property
    def lock(self) -> Path:
        """The framework's lock for this kind of device."""
        return self.locks / self.framework / f"{self.kind}.txt"

    @property
    def tag(self) -> str:
        """The tag for users: the newest image of this framework and kind."""
        return f"dlsuite/{self.framework}:{self.kind}"

    @property
    def exact_tag(self) -> str:
        """The tag by which the suite finds the image with exactly this content."""
        return f"{self.tag}-{self.content_sha256[:12]}"

    @cached_property
    def content_sha256(self) -> str:
        """The digest of all parts; an image with another digest is stale.

        It is computed once, so an edit during the build makes the image stale.
        """
        return digest(self.parts.values())

    @cached_property
    def parts(self) -> dict[str, str]:
        """The digest of each part of the content."""
        return {
            "base image": self.base_id,
            "recipe": sha256(LOCKS / "Dockerfile"),
            "lock": sha256(self.lock),
            "Debian packages": sha256(self.lock.with_name("apt.txt")),
            "worker": tree_sha256(self.worker),
        }

    @property
    def labels(self) -> dict[str, str]:
        """The labels of an image with this content."""
        return {
            **OURS,
            CONTENT: self.content_sha256,
            FRAMEWORK: self.framework,
            DEVICE: self.kind,
            BASE: self.base,
            **{_label(part): sha for part, sha in self.parts.items()},
        }

    def differences(self, image: Image) -> list[str]:
        """The parts in which an image differs from this recipe, as far as its labels show."""
        return [
            f"base image ({_short(image.labels[BASE])}, now {_short(self.base)})"
            if part == "base image"
            else part
            for part, sha in self.parts.items()
            if image.labels.get(_label(part), sha) != sha
        ]

    def context(self) -> IO[bytes]:
        """The build context: a tar archive with the layout of the repository."""
        file = tempfile.TemporaryFile()  # noqa: SIM115, the caller closes it
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in (self.lock, self.lock.with_name("apt.txt")):
                tar.add(path, f"docker/{self.framework}/{path.name}")
            tar.add(LOCKS / "Dockerfile", "docker/Dockerfile")
            tar.add(self.worker, "suite/worker", filter=_without_caches)
            for name in ("certs", "wheels"):
                tar.add(LOCKS / name, f"docker/{name}", recursive=False)
            for certificate in sorted((LOCKS / "certs").glob("*.crt")):
                tar.add(certificate, f"docker/certs/{certificate.name}")
            for wheel in self.wheels():
                tar.add(wheel, f"docker/wheels/{wheel.name}")
        file.seek(0)
        return file

    def wheels(self) -> Iterator[Path]:
        """The wheels in docker/wheels/ whose hash is in the lock."""
        lock = self.lock.read_text(encoding="utf-8")
        for wheel in sorted((LOCKS / "wheels").glob("*.whl")):
            if sha256(wheel) in lock:
                yield wheel


def _short(reference: str) -> str:
    """An image's name without its digest."""
    return reference.partition("@")[0]


def _label(part: str) -> str:
    return f"{PART}{part}".lower().replace(" ", "-")


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
        if not (self._locks / manifest.name / f"{kind}.txt").exists():
            raise FrameworkUnavailable(
                f"{manifest.title} has no lock for {kind} (docker/{manifest.name}/{kind}.txt)",
                hint="exclude it with --framework, or use another kind of device",
            )
        base = base_image()
        base_image_here = None if "@sha256:" in base else self.daemon.image(base)
        return Recipe(
            manifest=manifest,
            kind=kind,
            base=base,
            base_id=base_image_here.image_id if base_image_here else base,
            locks=self._locks,
            worker=self._worker,
        )

    def current(self, recipe: Recipe) -> Image | None:
        """The image with exactly this content, if there is one."""
        image = self.daemon.image(recipe.exact_tag)
        return image if image and image.labels.get(CONTENT) == recipe.content_sha256 else None

    def stale(self, recipe: Recipe) -> Image | None:
        """The newest image of this framework and kind with another content, if there is one."""
        images = self.daemon.images({**OURS, FRAMEWORK: recipe.framework, DEVICE: recipe.kind})
        content = recipe.content_sha256
        return next((image for image in images if image.labels.get(CONTENT) != content), None)

    def absence(self, recipe: Recipe) -> str:
        """Why there is no current image: it is stale, with the parts that differ, or not built."""
        stale = self.stale(recipe)
        if stale is None:
            return "not built"
        differences = recipe.differences(stale)
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

    def build(self, recipe: Recipe, notify: Notify) -> Image:
        """Build it, even if it is current; EngineError with pip's or the engine's reason."""
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
                on_line=on_line,
                stopped=self._stopped,
            )
        built = self.current(recipe)
        if reason or built is None:
            raise EngineError(
                f"the image of {recipe.manifest.title} cannot be built: {output.error or reason}",
                hint=f"see {log}; behind a proxy see docs/containers.md",
            )
        if self._tagged:
            self.daemon.tag(built.image_id, recipe.tag)
        return built

    def _require_base(self, recipe: Recipe, notify: Notify) -> None:
        with self._base_lock:
            if self.daemon.image(recipe.base):
                return
            notify(f"pulling the base image {recipe.base}")
            try:
                self.daemon.pull(recipe.base)
            except EngineError as error:
                raise EngineError(
                    f"the base image {recipe.base} cannot be pulled: {error}",
                    hint="without a registry: scripts/base-image, then"
                    " export DLSUITE_BASE_IMAGE=dlsuite-base:bookworm",
                ) from None


def log_path(recipe: Recipe) -> Path:
    """The log of the image's last build."""
    return home() / "logs" / f"image-{recipe.framework}-{recipe.kind}.log"


def kind(name: str) -> Kind:
    """`cpu` or `cuda`; UsageError for anything else."""
    for known in KINDS:
        if name == known:
            return known
    raise unknown("device", name, KINDS)


def _arguments(recipe: Recipe) -> dict[str, str]:
    arguments = {"BASE_IMAGE": recipe.base, "FRAMEWORK": recipe.framework, "DEVICE": recipe.kind}
    for name in (*BUILD_ARGUMENTS, *PROXY_ARGUMENTS, *map(str.lower, PROXY_ARGUMENTS)):
        if os.environ.get(name):
            arguments[name] = os.environ[name]
    index = recipe.manifest.cpu_index
    if index and recipe.kind == "cpu" and answers(index):
        extra = (os.environ.get("PIP_EXTRA_INDEX_URL", ""), index)
        arguments["PIP_EXTRA_INDEX_URL"] = " ".join(filter(None, extra))
    return arguments


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
