"""Everything that determines the content of an image, and the name under which it is found."""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, Self

from suite.engines.errors import FrameworkUnavailable
from suite.errors import unknown
from suite.manifests.frameworks import USUAL_BASE, FrameworkManifest
from suite.paths import LOCKS, WORKER, digest, sha256, tree_files

Kind = Literal["cpu", "cuda"]
KINDS: tuple[Kind, ...] = ("cpu", "cuda")

# Labels of the images. The recipe labels build stages with `dlsuite=stage`.
OURS = {"dlsuite": "image"}
STAGE = "dlsuite=stage"
CONTENT, FRAMEWORK, DEVICE = "dlsuite.content", "dlsuite.framework", "dlsuite.device"
BASE = "dlsuite.base"  # the base image's name
PART = "dlsuite.made-of."  # followed by a part's name: the digest of that part
BASE_VARIABLE = "DLSUITE_BASE_IMAGE"
CONTEXT_TIME_S = 315532800  # of all files in a build context: 1980, the first year of zip files
IMAGE_WORKER = "/opt/dlsuite/suite/worker"


def base_variable(base: str = USUAL_BASE) -> str:
    """The environment variable that names another base image."""
    return BASE_VARIABLE if base == USUAL_BASE else f"{BASE_VARIABLE}_{base.upper()}"


def base_image(base: str = USUAL_BASE) -> str:
    """The base image of this name in docker/pins.toml, or that in its environment variable."""
    pins = tomllib.loads((LOCKS / "pins.toml").read_text(encoding="utf-8"))
    return os.environ.get(base_variable(base)) or str(pins[base]["image"])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines the content of an image."""

    manifest: FrameworkManifest
    kind: Kind
    base: str  # the reference for FROM
    base_id: str  # the same if it is pinned by digest, else an image id
    locks: Path = LOCKS
    worker: Path = WORKER

    @classmethod
    def of(
        cls,
        manifest: FrameworkManifest,
        kind: Kind,
        *,
        base_id: str | None = None,
        locks: Path = LOCKS,
        worker: Path = WORKER,
    ) -> Self:
        """The recipe; FrameworkUnavailable if the framework has no lock for this kind of device.

        `base_id`: the id of the base image, where its name has no digest.
        """
        if manifest.check:
            raise FrameworkUnavailable(f"{manifest.title} has no image", hint="--engine venv")
        if not (locks / manifest.name / f"{kind}.txt").exists():
            raise FrameworkUnavailable(
                f"{manifest.title} has no lock for {kind} (docker/{manifest.name}/{kind}.txt)",
                hint="exclude it with --framework, or use another kind of device",
            )
        base = base_image(manifest.base)
        return cls(
            manifest=manifest,
            kind=kind,
            base=base,
            base_id=base_id or base,
            locks=locks,
            worker=worker,
        )

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

    @property
    def broken_tag(self) -> str:
        """The tag of an image with this content that `images verify` found broken."""
        return f"{self.exact_tag}-broken"

    @cached_property
    def file_name(self) -> str:
        """The name, without suffix, of an exported image's file.

        It has the digest of all parts but the base image, whose id is not known without Docker.
        """
        own = digest(sha for part, sha in self.parts.items() if part != "base image")
        return f"{self.framework}-{self.kind}-{own[:12]}"

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
            "worker": digest(self._worker_files()),
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

    def differences(self, labels: Mapping[str, str]) -> list[str]:
        """The parts in which an image with these labels differs from this recipe."""
        return [
            f"base image ({_short(labels[BASE])}, now {_short(self.base)})"
            if part == "base image"
            else part
            for part, sha in self.parts.items()
            if labels.get(_label(part), sha) != sha
        ]

    def context(self) -> IO[bytes]:
        """The build context: a tar archive with the layout of the repository."""
        archive = tempfile.TemporaryFile()  # noqa: SIM115, the caller closes it
        with tarfile.open(fileobj=archive, mode="w") as tar:

            def add(path: Path, name: str) -> None:
                tar.add(path, name, recursive=False, filter=_normalised)

            for path in (self.lock, self.lock.with_name("apt.txt")):
                add(path, f"docker/{self.framework}/{path.name}")
            add(LOCKS / "Dockerfile", "docker/Dockerfile")
            for folder in sorted({file.parent for file in tree_files(self.worker)}):
                add(folder, str("suite/worker" / folder.relative_to(self.worker)))
            for file in tree_files(self.worker):
                add(file, str("suite/worker" / file.relative_to(self.worker)))
            for name in ("certs", "wheels"):
                add(LOCKS / name, f"docker/{name}")
            for certificate in sorted((LOCKS / "certs").glob("*.crt")):
                add(certificate, f"docker/certs/{certificate.name}")
            for wheel in self.wheels():
                add(wheel, f"docker/wheels/{wheel.name}")
        archive.seek(0)
        return archive

    def _worker_files(self) -> Iterator[str]:
        """A line with name, mode and digest for each file of the worker."""
        for file in tree_files(self.worker):
            mode = _mode(file.stat().st_mode)
            yield f"{file.relative_to(self.worker)} {mode:o} {sha256(file)}"

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


def kind(name: str) -> Kind:
    """`cpu` or `cuda`; UsageError for anything else."""
    for known in KINDS:
        if name == known:
            return known
    raise unknown("device", name, KINDS)


def _normalised(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry of the build context without what differs between checkouts: umask, owner, time.

    The user of a container is none of the owners of the checkout.
    """
    entry.mode = 0o755 if entry.isdir() else _mode(entry.mode)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = CONTEXT_TIME_S
    return entry


def _mode(mode: int) -> int:
    """The mode of a file in an image: readable for all, and executable if its owner may run it."""
    return 0o755 if mode & stat.S_IXUSR else 0o644
