"""A client of the Docker engine with the calls that the suite needs.

Only this module, `container`, `connection` and `credentials` import the SDK. They do not know
frameworks or trials. Every call raises EngineLost if the engine does not answer, EngineError if it
refuses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import Mount

from suite.engines.docker.connection import REQUEST_S, connect, sdk_errors, within
from suite.engines.docker.container import CONFLICT, POLL_S, REMOVAL_S, Container, Labels
from suite.engines.docker.streaming import items_until, write
from suite.engines.errors import EngineLost
from suite.errors import EngineError

COPY_TIMEOUT_S = 3600  # of copying an image: the engine answers when it has packed or unpacked it
NEVER = threading.Event()
BUILT = "Successfully built"  # the last lines of a complete build, of Docker and of Podman
# The default of an engine may be `none`, which keeps no output.
LOG_DRIVER = {"type": "json-file", "config": {}}


@dataclass(frozen=True, kw_only=True)
class Image:
    """The engine's description of an image."""

    image_id: str
    tags: tuple[str, ...]
    labels: Labels
    size_bytes: int


class Daemon:
    """A connection to an engine."""

    def __init__(self, address: str | None = None) -> None:
        """Without `address`: the engine that DOCKER_HOST or the current Docker context names."""
        self.address = address
        with sdk_errors(address):
            self._client = connect(address)
            self.info: dict[str, Any] = within(REQUEST_S, self._client.info)
        if not _is_engine(self.info):
            raise EngineLost(
                f"what answers{f' at {address}' if address else ''} is no Docker engine: its"
                " description has no number of CPUs and no size of memory (NCPU, MemTotal)",
                hint="docker info; DOCKER_HOST or the Docker context may name another server",
            )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def answers(self) -> bool:
        """Whether the engine answers now."""
        with sdk_errors():
            try:
                connect(self.address).close()
            except (requests.RequestException, DockerException):
                return False
        return True

    def create(
        self,
        image: str,
        *,
        name: str,
        labels: Labels,
        folders: Mapping[str, Path] | None = None,
        alias: str | None = None,
        **options: Any,
    ) -> Container:
        """Create a container; `folders` maps its paths to folders of the engine's machine.

        The folders are mounted read-only. The engine refuses a folder that does not exist. In a
        network, the other containers find it by its `alias`.
        """
        if alias:
            network = options.pop("network_mode")
            config = self._client.api.create_endpoint_config(aliases=[alias])
            options |= {"network": network, "networking_config": {network: config}}
        mounts = [
            Mount(target, str(source), type="bind", read_only=True)
            for target, source in (folders or {}).items()
        ]
        options.setdefault("log_config", LOG_DRIVER)
        with sdk_errors():
            return Container(
                self._client.containers.create(
                    image, name=name, labels=labels, mounts=mounts, **options
                )
            )

    def containers(self, labels: Mapping[str, str]) -> list[Container]:
        """All containers with these labels, running or not; an empty value matches any."""
        with sdk_errors():
            found = self._client.containers.list(
                all=True, filters={"label": _filter(labels)}, ignore_removed=True
            )
        return [Container(sdk) for sdk in found]

    def make_network(self, name: str, labels: Labels) -> None:
        """Create a network without access to any other."""
        with sdk_errors():
            self._client.networks.create(name, driver="bridge", internal=True, labels=labels)

    def networks(self, labels: Mapping[str, str]) -> dict[str, Labels]:
        """The names and labels of all networks with these labels."""
        with sdk_errors():
            found = self._client.networks.list(filters={"label": _filter(labels)})
        return {network.name: network.attrs.get("Labels") or {} for network in found}

    def remove_network(self, name: str) -> None:
        """Remove the network, if it exists."""
        with sdk_errors(), suppress(NotFound):
            self._client.networks.get(name).remove()

    def make_volume(self, name: str, labels: Labels) -> None:
        """Create the volume, unless it exists."""
        with sdk_errors():
            self._client.volumes.create(name, labels=labels)

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Labels]:
        """The names and labels of all volumes with these labels."""
        with sdk_errors():
            found = self._client.volumes.list(filters={"label": _filter(labels)})
        return {volume.name: volume.attrs.get("Labels") or {} for volume in found}

    def remove_volume(self, name: str) -> None:
        """Remove it once the engine has released it; no error if it does not exist."""
        end = time.monotonic() + REMOVAL_S
        while True:
            with sdk_errors():
                try:
                    self._client.api.remove_volume(name, force=True)
                except NotFound:
                    return
                except APIError as error:
                    if error.status_code != CONFLICT or time.monotonic() >= end:
                        raise
                else:
                    return
            time.sleep(POLL_S)

    def image(self, reference: str) -> Image | None:
        """The image with this tag, digest or id; None if the engine has none."""
        with sdk_errors():
            try:
                return _image(self._client.images.get(reference).attrs)
            except ImageNotFound:
                return None

    def images(self, labels: Mapping[str, str]) -> list[Image]:
        """All images with these labels, newest first, without those removed meanwhile."""
        found = []
        with sdk_errors():
            for listed in self._client.api.images(filters={"label": _filter(labels)}):
                with suppress(ImageNotFound):  # another process removed it after the listing
                    found.append(self._client.images.get(listed["Id"]).attrs)
        return [_image(attrs) for attrs in sorted(found, key=itemgetter("Created"), reverse=True)]

    def pull(self, reference: str, stopped: threading.Event = NEVER) -> None:
        """Download an image from its registry; raise EngineError at once when `stopped` is set."""

        def pulled() -> Iterator[EngineError]:
            try:
                with sdk_errors():
                    self._client.images.pull(reference)
            except EngineError as error:
                yield error

        for error in items_until(stopped, pulled()):  # a registry that hangs is not interruptible
            raise error
        if stopped.is_set():
            raise EngineError("stopped", hint="run the command again")

    def push(self, reference: str) -> str:
        """Upload a tagged image to its registry; return the digest of its manifest."""
        repository, _, tag = reference.rpartition(":")
        digest = None
        with sdk_errors():
            for step in self._client.api.push(repository, tag=tag, stream=True, decode=True):
                if "error" in step:
                    text = f"{reference} cannot be pushed: {step['error']}"
                    raise EngineError(text, hint="docker login, or another registry")
                digest = step.get("aux", {}).get("Digest", digest)
        if digest is None:
            raise EngineError(f"{reference}: the registry gave no digest", hint="docker push")
        return str(digest)

    def pullable(self, reference: str) -> bool:
        """Whether the registry has the image; nothing is downloaded."""
        with sdk_errors():
            try:
                self._client.images.get_registry_data(reference)
            except APIError:
                return False
        return True

    def build(
        self,
        context: IO[bytes],
        *,
        tag: str,
        labels: Labels,
        arguments: dict[str, str],
        network: str | None,
        fresh: bool,
        on_line: Callable[[str], None],
        stopped: threading.Event,
    ) -> str | None:
        """Build docker/Dockerfile from a tar archive; return the engine's error, or None.

        `fresh`: without the engine's cache of layers. Return at once when `stopped` is set; the
        engine cancels the build when this process ends.
        """
        with sdk_errors():
            steps = self._client.api.build(
                fileobj=context,
                custom_context=True,
                dockerfile="docker/Dockerfile",
                tag=tag,
                labels=labels,
                buildargs=arguments,
                network_mode=network,
                nocache=fresh,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            )
        built = False
        for step in items_until(stopped, steps):
            for line in str(step.get("stream", "")).splitlines():
                built = built or line.startswith(BUILT)
                on_line(line)
            if "error" in step:
                return str(step["error"]).strip()
        if stopped.is_set():
            return "stopped"
        return None if built else "the engine's answer ended before the build did"

    def tag(self, image_id: str, reference: str) -> None:
        """Give an image a tag, which is taken from any other image."""
        with sdk_errors():
            self._client.api.tag(image_id, *reference.rsplit(":", 1), force=True)

    def remove_tag(self, reference: str) -> None:
        """Take a tag from its image, which has another one; no error if it is missing."""
        with sdk_errors(), suppress(ImageNotFound):
            self._client.images.remove(reference, noprune=True)

    def remove_image(self, image_id: str) -> None:
        """Remove it with all tags; no error if it is missing, EngineError if it is in use."""
        with sdk_errors():
            try:
                self._client.images.remove(image_id, force=True)
            except ImageNotFound:
                return

    def copy_image(self, reference: str, target: Daemon) -> None:
        """Send an image to another engine, where it has the same id and the same tag.

        An engine may pack an image for minutes before it sends the first byte.
        """
        with (
            sdk_errors(self.address),
            closing(connect(self.address, timeout_s=COPY_TIMEOUT_S)) as source,
        ):
            chunks = source.images.get(reference).save(named=reference)
            with (
                sdk_errors(target.address),
                closing(connect(target.address, timeout_s=COPY_TIMEOUT_S)) as client,
            ):
                client.images.load(chunks)

    def save_image(self, reference: str, file: IO[bytes]) -> None:
        """Write an image to a file, as `docker save` does."""
        with sdk_errors(self.address):
            client = connect(self.address, timeout_s=COPY_TIMEOUT_S)
        try:
            with sdk_errors(self.address):
                chunks = client.images.get(reference).save(named=reference)
            write(chunks, file)
        finally:
            client.close()

    def prune_dangling(self, label: str) -> int:
        """Remove untagged images with `label`; return the number of bytes freed."""
        with sdk_errors():
            reply = self._client.images.prune(filters={"dangling": True, "label": label})
        return int(reply.get("SpaceReclaimed") or 0)


def _is_engine(info: Any) -> bool:
    """Whether this is an engine's description of itself, as far as the suite depends on it."""
    return isinstance(info, dict) and all(
        isinstance(info.get(name), int) and info[name] > 0 for name in ("NCPU", "MemTotal")
    )


def _filter(labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" if value else key for key, value in labels.items()]


def _image(attrs: dict[str, Any]) -> Image:
    return Image(
        image_id=attrs["Id"],
        tags=tuple(attrs.get("RepoTags") or ()),
        labels=(attrs.get("Config") or {}).get("Labels") or {},
        size_bytes=attrs["Size"],
    )
