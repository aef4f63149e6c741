"""The client of the Docker engine, as far as the suite needs it: the only importer of the SDK.

It knows nothing about frameworks or trials. Every call raises EngineLost where the engine does not
answer, EngineError where it refuses.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import requests
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container as SdkContainer
from docker.types import Mount

import docker
from suite.engines.base import EngineLost
from suite.errors import EngineError

NO_ENGINE = "start Docker or set DOCKER_HOST, or use --engine venv"
POLL_S = 0.02
CONFLICT = 409
TIMEOUT_S = 60  # of one request; streams have none
REMOVAL_S = 20.0  # at most, for a container's removal, after which its volumes are free
Labels = dict[str, str]
Chunk = tuple[bytes | None, bytes | None]  # of standard output and standard error
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Image:
    image_id: str
    tags: tuple[str, ...]
    labels: Labels
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class State:
    """The engine's description of an existing container."""

    status: str  # created, running, exited ...
    exit_code: int
    oom_killed: bool
    started_at: float  # seconds since the epoch, by the engine's clock; 0: never
    finished_at: float

    @property
    def started(self) -> bool:
        """Whether it ever ran; engines have several names for a container that did not."""
        return self.started_at > 0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        # Podman resets an ended container to "created" when a client attaches to it.
        ended = self.status != "running" and self.finished_at > self.started_at > 0
        return ended or self.status in ("exited", "dead")

    @property
    def ran_s(self) -> float | None:
        """How long it ran, in seconds; None where it has not ended.

        The runtime reports the end and the engine the start, a little late: for a container that
        ends at once the end may precede the start.
        """
        return max(0.0, self.finished_at - self.started_at) if self.finished_at > 0 else None


@contextmanager
def _translated() -> Iterator[None]:
    """Convert the SDK's exceptions to the suite's."""
    try:
        yield
    except APIError as error:
        reason = str(error.explanation or error).strip()
        raise EngineError(f"the engine refused: {reason}", hint="dlsuite doctor") from None
    except (requests.RequestException, DockerException, OSError) as error:
        reason, hint = _cause(error)
        raise EngineLost(f"no Docker engine answers: {reason}", hint=hint) from None


def _cause(error: BaseException) -> tuple[str, str]:
    """The system's reason for a failed connection, which the SDK wraps repeatedly; and a hint."""
    where = os.environ.get("DOCKER_HOST")
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, PermissionError):
            named = where or "its socket"
            return f"no permission for {named}", "join the group docker and log in again, or sudo"
        if isinstance(inner, FileNotFoundError):
            return f"there is no socket at {where or 'its usual place'}", NO_ENGINE
        wrapped = next((each for each in inner.args if isinstance(each, BaseException)), None)
        inner = wrapped or inner.__cause__ or inner.__context__
    return str(error), NO_ENGINE


class Container:
    """One container, which may be removed at any time: then `state` is None."""

    def __init__(self, sdk: SdkContainer) -> None:
        self._sdk = sdk
        self.container_id: str = sdk.id
        self.name: str = sdk.name
        self.labels: Labels = sdk.labels

    def state(self) -> State | None:
        """None where it was removed; a removal in progress is awaited."""
        end = time.monotonic() + REMOVAL_S
        while True:
            with _translated():
                try:
                    self._sdk.reload()
                except NotFound:
                    return None
            state: dict[str, Any] = self._sdk.attrs["State"]
            if state["Status"] not in ("removing", "dead") or time.monotonic() >= end:
                break
            time.sleep(POLL_S)
        return State(
            status=state["Status"],
            exit_code=state["ExitCode"],
            oom_killed=state["OOMKilled"],
            started_at=_seconds(state["StartedAt"]),
            finished_at=_seconds(state["FinishedAt"]),
        )

    def ended(self, limit_s: float) -> State | None:
        """Its state once it has ended; None where it was removed or still runs after the limit."""
        end = time.monotonic() + limit_s
        while (state := self.state()) and not state.over:
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_S)
        return state

    def inspect(self) -> dict[str, Any]:
        """All attributes that the engine has of it."""
        with _translated():
            self._sdk.reload()
        attrs: dict[str, Any] = self._sdk.attrs
        return attrs

    def start(self) -> None:
        """Start it."""
        with _translated():
            self._sdk.start()

    def attach(self) -> Iterator[Chunk]:
        """Its output from the start until it ends. For a container that has ended: nothing."""
        with _translated():
            chunks: Iterator[Chunk] = self._sdk.attach(
                stdout=True, stderr=True, stream=True, demux=True, logs=True
            )
        return chunks

    def output(self) -> tuple[bytes, bytes]:
        """Its complete standard output and standard error."""
        with _translated():
            out: bytes = self._sdk.logs(stdout=True, stderr=False)
            err: bytes = self._sdk.logs(stdout=False, stderr=True)
        return out, err

    def put(self, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar archive into a folder on a volume; the container need not run."""
        with _translated():
            self._sdk.put_archive(folder, archive)

    def fetch(self, path: str, into: IO[bytes]) -> bool:
        """Write a tar archive of a file or folder to `into`; False where there is none."""
        try:
            with _translated():
                try:
                    chunks, _ = self._sdk.get_archive(path)
                except NotFound:
                    return False
                into.writelines(chunks)
        except EngineLost:
            raise
        except EngineError:
            if self.state() is None:  # it was removed meanwhile
                return False
            raise
        return True

    def kill(self) -> None:
        """Kill it; no error where it has ended or was removed."""
        with _translated():
            try:
                self._sdk.kill()
            except APIError as error:
                if error.status_code not in (404, CONFLICT):
                    raise

    def remove(self) -> None:
        """Kill and remove it; no error where it was removed already."""
        with _translated():
            try:
                self._sdk.remove(force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != CONFLICT:  # another client is removing it
                    raise


class Daemon:
    """A connection to the engine that DOCKER_HOST or the current Docker context names."""

    def __init__(self) -> None:
        with _translated():
            context = None if os.environ.get("DOCKER_HOST") else ContextAPI.get_current_context()
            if context is None or context.name == "default":
                self._client = docker.from_env(timeout=TIMEOUT_S, use_ssh_client=True)
            else:
                self._client = docker.DockerClient(
                    base_url=context.Host,
                    tls=context.TLSConfig,
                    timeout=TIMEOUT_S,
                    use_ssh_client=True,
                )
            self.info: dict[str, Any] = self._client.info()

    def close(self) -> None:
        self._client.close()

    def answers(self) -> bool:
        with _translated():
            try:
                return bool(self._client.ping())
            except (requests.RequestException, DockerException):
                return False

    def now(self) -> float:
        """Seconds since the epoch by the engine's clock."""
        with _translated():
            system_time = self._client.info().get("SystemTime")
        return _seconds(system_time) if system_time else time.time()

    def create(
        self,
        image: str,
        *,
        name: str,
        labels: Labels,
        folders: Mapping[str, Path] | None = None,
        **options: Any,
    ) -> Container:
        """Create a container; `folders` of the engine's machine are mounted read-only at the keys.

        The engine refuses a folder that does not exist.
        """
        mounts = [
            Mount(target, str(source), type="bind", read_only=True)
            for target, source in (folders or {}).items()
        ]
        with _translated():
            return Container(
                self._client.containers.create(
                    image, name=name, labels=labels, mounts=mounts, **options
                )
            )

    def containers(self, labels: Mapping[str, str]) -> list[Container]:
        """All containers with these labels, running or not; an empty value matches any."""
        with _translated():
            found = self._client.containers.list(
                all=True, filters={"label": _filter(labels)}, ignore_removed=True
            )
        return [Container(each) for each in found]

    def make_volume(self, name: str, labels: Labels) -> None:
        """Create the volume, unless it exists."""
        with _translated():
            self._client.volumes.create(name, labels=labels)

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Labels]:
        with _translated():
            found = self._client.volumes.list(filters={"label": _filter(labels)})
        return {each.name: each.attrs.get("Labels") or {} for each in found}

    def remove_volume(self, name: str) -> None:
        """Remove it, waiting until the engine has released it; no error where it does not exist."""
        end = time.monotonic() + REMOVAL_S
        while True:
            with _translated():
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
        with _translated():
            try:
                return _image(self._client.images.get(reference).attrs)
            except ImageNotFound:
                return None

    def images(self, labels: Mapping[str, str]) -> list[Image]:
        """All images with these labels, newest first."""
        with _translated():
            found = self._client.images.list(filters={"label": _filter(labels)})
        return [_image(each.attrs) for each in sorted(found, key=_created, reverse=True)]

    def pull(self, reference: str) -> None:
        with _translated():
            self._client.images.pull(reference)

    def pullable(self, reference: str) -> bool:
        """Whether the registry has it; nothing is downloaded."""
        with _translated():
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
        on_line: Callable[[str], None],
        stopped: threading.Event,
    ) -> str | None:
        """Build docker/Dockerfile of a tar archive; return the engine's error, None on success.

        Return at once when `stopped` is set; the engine cancels the build when this process ends.
        """
        with _translated():
            steps = self._client.api.build(
                fileobj=context,
                custom_context=True,
                dockerfile="docker/Dockerfile",
                tag=tag,
                labels=labels,
                buildargs=arguments,
                network_mode=network,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            )
        queued = pumped(steps)
        while not stopped.is_set():
            try:
                step = queued.get(timeout=0.2)
            except queue.Empty:
                continue
            if step is None:
                return None
            for line in str(step.get("stream", "")).splitlines():
                on_line(line)
            if "error" in step:
                return str(step["error"]).strip()
        return "stopped"

    def tag(self, image_id: str, reference: str) -> None:
        with _translated():
            self._client.api.tag(image_id, *reference.split(":"), force=True)

    def remove_image(self, image_id: str) -> None:
        """Remove it with all tags; no error where it is missing, EngineError where it is used."""
        with _translated():
            try:
                self._client.images.remove(image_id, force=True)
            except ImageNotFound:
                return

    def prune_dangling(self, label: str) -> int:
        """Remove untagged images with `label`; return the number of bytes freed."""
        with _translated():
            reply = self._client.images.prune(filters={"dangling": True, "label": label})
        return int(reply.get("SpaceReclaimed") or 0)


def pumped(stream: Iterable[T]) -> queue.Queue[T | None]:
    """A queue with the items of a stream that has no timeout of its own; None marks the end.

    A broken stream ends too; the reader must check the state of its source.
    """
    items: queue.Queue[T | None] = queue.Queue()

    def pump() -> None:
        try:
            for item in stream:
                items.put(item)
        except Exception:
            pass
        finally:
            items.put(None)

    threading.Thread(target=pump, daemon=True).start()
    return items


def _filter(labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" if value else key for key, value in labels.items()]


def _image(attrs: dict[str, Any]) -> Image:
    return Image(
        image_id=attrs["Id"],
        tags=tuple(attrs.get("RepoTags") or ()),
        labels=(attrs.get("Config") or {}).get("Labels") or {},
        size_bytes=attrs["Size"],
    )


def _created(image: Any) -> str:
    return str(image.attrs["Created"])


def _seconds(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 for the year 1, which means never."""
    return 0.0 if stamp.startswith("0001") else datetime.fromisoformat(stamp).timestamp()
