"""Images: what one is made of, whether it still is what its label says, how it is built."""

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

from suite.engines.base import FrameworkUnavailable, Say
from suite.engines.docker import Daemon, Image
from suite.engines.environments import answers
from suite.engines.pip_output import PipOutput
from suite.errors import EngineError, unknown
from suite.manifest import FrameworkManifest
from suite.paths import LOCKS, WORKER, digest, home, sha256, tree_sha256

Kind = Literal["cpu", "cuda"]
KINDS: tuple[Kind, ...] = ("cpu", "cuda")

# Labels of our images; `dlsuite=stage` is set by the recipe on what only the build needs.
OURS = {"dlsuite": "image"}
STAGE = "dlsuite=stage"
CONTENT, FRAMEWORK, DEVICE = "dlsuite.content", "dlsuite.framework", "dlsuite.device"
BASE = "dlsuite.base"  # the base image's name; what else it is made of: "dlsuite.made-of.<part>"
MADE_OF = "dlsuite.made-of."
BASE_VARIABLE = "DLSUITE_BASE_IMAGE"
IMAGE_WORKER = "/opt/dlsuite/suite/worker"

# Settings of pip and of a proxy that a build needs and that leave no trace in an image.
BUILD_ARGUMENTS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
PROXY_ARGUMENTS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")


def base_image() -> str:
    """What the images stand on: $DLSUITE_BASE_IMAGE, or the one in docker/pins.toml."""
    pins = tomllib.loads((LOCKS / "pins.toml").read_text(encoding="utf-8"))
    return os.environ.get(BASE_VARIABLE) or str(pins["base"]["image"])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides what an image holds."""

    manifest: FrameworkManifest
    kind: Kind
    base: str  # a reference that FROM takes
    base_id: str  # what it stands for: itself where it is pinned by digest, else an image id
    locks: Path = LOCKS
    worker: Path = WORKER

    @property
    def framework(self) -> str:
        return self.manifest.name

    @property
    def lock(self) -> Path:
        return self.locks / self.framework / f"{self.kind}.txt"

    @property
    def tag(self) -> str:
        """The name for people: of the newest image of this framework and kind."""
        return f"dlsuite/{self.framework}:{self.kind}"

    @property
    def exact_tag(self) -> str:
        """The name by which the suite finds the image of just this content."""
        return f"{self.tag}-{self.content_sha256[:12]}"

    @cached_property
    def content_sha256(self) -> str:
        """Of recipe, base, lock and worker: the label that tells a current image from a stale.

        Read once: what is edited while the image is built makes it stale, not nameless.
        """
        return digest(self.parts.values())

    @cached_property
    def parts(self) -> dict[str, str]:
        """What the content is made of: name -> digest."""
        return {
            "base image": self.base_id,
            "recipe": sha256(LOCKS / "Dockerfile"),
            "lock": sha256(self.lock),
            "Debian packages": sha256(self.lock.with_name("apt.txt")),
            "worker": tree_sha256(self.worker),
        }

    @property
    def labels(self) -> dict[str, str]:
        return {
            **OURS,
            CONTENT: self.content_sha256,
            FRAMEWORK: self.framework,
            DEVICE: self.kind,
            BASE: self.base,
            **{_label(part): sha for part, sha in self.parts.items()},
        }

    def differences(self, image: Image) -> list[str]:
        """The parts in which an image differs; none where its labels do not tell."""
        return [
            f"base image ({_short(image.labels[BASE])}, now {_short(self.base)})"
            if part == "base image"
            else part
            for part, sha in self.parts.items()
            if image.labels.get(_label(part), sha) != sha
        ]

    def context(self) -> IO[bytes]:
        """The build's context: a tar archive, laid out like the repository."""
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
        """Those in docker/wheels/ that the lock wants, by their hash."""
        lock = self.lock.read_text(encoding="utf-8")
        for wheel in sorted((LOCKS / "wheels").glob("*.whl")):
            if sha256(wheel) in lock:
                yield wheel


def _short(reference: str) -> str:
    """An image's name without its digest."""
    return reference.partition("@")[0]


def _label(part: str) -> str:
    return f"{MADE_OF}{part}".lower().replace(" ", "-")


class Images:
    """The images on one engine; safe to use from several threads."""

    def __init__(
        self, daemon: Daemon, *, locks: Path = LOCKS, worker: Path = WORKER, named: bool = True
    ) -> None:
        """Where they are not `named`, what is built does not take the name for people."""
        self.daemon = daemon
        self._locks = locks
        self._worker = worker
        self._named = named
        self._base_lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the builds that other threads have under way, and begin no more."""
        self._stopped.set()

    def recipe(self, manifest: FrameworkManifest, kind: Kind) -> Recipe:
        """Raise FrameworkUnavailable where the framework has no lock for this kind of device."""
        if not (self._locks / manifest.name / f"{kind}.txt").exists():
            raise FrameworkUnavailable(
                f"{manifest.title} has no lock for {kind} (docker/{manifest.name}/{kind}.txt)",
                hint="leave it out with --framework, or run it on another kind of device",
            )
        base = base_image()
        known = None if "@sha256:" in base else self.daemon.image(base)
        return Recipe(
            manifest=manifest,
            kind=kind,
            base=base,
            base_id=known.image_id if known else base,
            locks=self._locks,
            worker=self._worker,
        )

    def current(self, recipe: Recipe) -> Image | None:
        """The image that is made of just this, by its name and its label."""
        image = self.daemon.image(recipe.exact_tag)
        return image if image and image.labels.get(CONTENT) == recipe.content_sha256 else None

    def stale(self, recipe: Recipe) -> Image | None:
        """An image of this framework and kind that is made of something else."""
        labels = {**OURS, FRAMEWORK: recipe.framework, DEVICE: recipe.kind}
        found = self.daemon.images(labels)
        return next((i for i in found if i.labels.get(CONTENT) != recipe.content_sha256), None)

    def absence(self, recipe: Recipe) -> str:
        """How an image that is not current is missing: stale, with what differs, or not built."""
        stale = self.stale(recipe)
        if stale is None:
            return "not built"
        differences = recipe.differences(stale)
        return f"stale: other {', '.join(differences)}" if differences else "stale"

    def ready(self, recipe: Recipe, say: Say) -> Image:
        """The current image, built now if there is none; EngineError where it cannot be built."""
        return self.current(recipe) or self.build(recipe, say)

    def can_build(self) -> str | None:
        """Why no image can be built here: the base image can neither be found nor be pulled."""
        base = base_image()
        if self.daemon.image(base) or self.daemon.pullable(base):
            return None
        return f"its base image {base.partition('@')[0]} is not here and cannot be pulled"

    def build(self, recipe: Recipe, say: Say) -> Image:
        """Build it, whatever is there; EngineError names pip's or the engine's reason."""
        self._need_base(recipe, say)
        say(f"{recipe.manifest.title}: building its image ({recipe.tag})")
        log = log_path(recipe)
        log.parent.mkdir(parents=True, exist_ok=True)
        heard = PipOutput(recipe.manifest.title, say)
        with recipe.context() as context, log.open("w", encoding="utf-8") as file:

            def on_line(line: str) -> None:
                file.write(f"{line}\n")
                heard.line(line)

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
                f"the image of {recipe.manifest.title} cannot be built: {heard.error or reason}",
                hint=f"see {log}; behind a proxy see docs/containers.md",
            )
        if self._named:
            self.daemon.tag(built.image_id, recipe.tag)
        return built

    def _need_base(self, recipe: Recipe, say: Say) -> None:
        with self._base_lock:
            if self.daemon.image(recipe.base):
                return
            say(f"pulling the base image {recipe.base}")
            try:
                self.daemon.pull(recipe.base)
            except EngineError as error:
                raise EngineError(
                    f"the base image {recipe.base} cannot be pulled: {error}",
                    hint="without a registry: scripts/base-image, then"
                    " export DLSUITE_BASE_IMAGE=dlsuite-base:bookworm",
                ) from None


def log_path(recipe: Recipe) -> Path:
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
