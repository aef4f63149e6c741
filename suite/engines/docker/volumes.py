"""Volumes: files pass to a worker and back through the engine's API only.

Host and engine need not share a file system. A remote engine therefore works like a local one, and
no root-owned file appears on the host.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from suite import archives
from suite.datasets.formats.prepared import DESCRIPTION
from suite.engines.docker.client import Daemon
from suite.engines.docker.container import Container, Labels
from suite.paths import digest, sha256

UID = 10001  # the user `worker` of the images; it owns all files in volumes
COMPLETE = ".complete"  # a file in every volume that was filled completely
# Podman (4.3.1) reads no further than this, and an archive that is padded to tar's record of 10,240
# bytes then breaks its pipe, or not: it is a race.
END_OF_ARCHIVE = bytes(2 * tarfile.BLOCKSIZE)
Files = Mapping[str, Path]


class Volumes:
    """The volumes of one session; those with its `labels` are removed when it ends."""

    def __init__(self, daemon: Daemon, session_id: str, labels: Labels) -> None:
        self._daemon = daemon
        self._session_id = session_id
        self._labels = labels
        self._filled: set[str] = set()
        self._filling = threading.Lock()  # runs in several threads use the same volumes

    def data(self, folder: Path, image_id: str) -> str:
        """The volume with a dataset's files: filled once, kept, and found by its content."""
        files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
        # A prepared dataset has a description, with the digests of all its files.
        description = {name: path for name, path in files.items() if name == DESCRIPTION}
        key = _content(description or files)
        name, labels = f"dlsuite-data-{key[:12]}", {"dlsuite": "data", "dlsuite.content": key}
        return self._filled_volume(name, labels, files, image_id)

    def inputs(self, files: Files, image_id: str) -> str:
        """A volume with these files, for this session only."""
        stats = {path: path.stat() for path in files.values()}
        key = digest(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats.items())
        name = f"dlsuite-inputs-{self._session_id}-{key[:12]}"
        return self._filled_volume(name, {**self._labels, "dlsuite": "inputs"}, files, image_id)

    def collect(self, volume: str, path: str, folder: Path, image_id: str) -> None:
        """Fetch a folder of a volume whose container was removed, if it exists."""
        with self._helper(volume, image_id) as helper:
            fetch(helper, f"/data/{path}", folder)

    def _filled_volume(self, name: str, labels: Labels, files: Files, image_id: str) -> str:
        with self._filling:
            if name not in self._filled:
                self._daemon.make_volume(name, labels)
                with self._helper(name, image_id) as helper, tempfile.TemporaryFile() as unused:
                    if not helper.fetch(f"/data/{COMPLETE}", unused):
                        send(helper, "/data", files)
                        helper.put("/data", archive({COMPLETE: b""}, uid=UID))
                self._filled.add(name)
        return name

    @contextmanager
    def _helper(self, volume: str, image_id: str) -> Iterator[Container]:
        """A container that is never started, for reading and writing a volume."""
        helper = self._daemon.create(
            image_id,
            name=f"{volume}-helper-{self._session_id}",
            labels={**self._labels, "dlsuite": "helper"},
            network_mode="none",
            volumes={volume: {"bind": "/data", "mode": "rw"}},
        )
        try:
            yield helper
        finally:
            helper.remove()


def fetch(container: Container, path: str, folder: Path) -> bool:
    """Fetch a folder of a container into `folder`; False if there is none."""
    with tempfile.TemporaryFile() as packed:
        if not container.fetch(path, packed):
            return False
        packed.seek(0)
        with tarfile.open(fileobj=packed) as tar:
            archives.extract(tar, folder)
    return True


def archive(entries: Mapping[str, bytes], *, uid: int) -> IO[bytes]:
    """A tar archive of small files; names that end in a slash are folders."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            entry.mode = 0o755 if name.endswith("/") else 0o644
            entry.uid = entry.gid = uid
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    packed.truncate(tar.offset)
    packed.seek(0)
    return packed


def send(container: Container, folder: str, files: Files) -> None:
    """Stream files into a folder of a container as one archive, without holding it in memory.

    The folder is on a volume. A name may contain folders; they are created.
    """
    reading, writing = os.pipe()
    with ThreadPoolExecutor(max_workers=1) as pool:
        packing = pool.submit(_pack, files, os.fdopen(writing, "wb"))
        with os.fdopen(reading, "rb") as pipe:
            container.put(folder, pipe)
    packing.result()  # raises the error of an unreadable file


def _pack(files: Files, pipe: IO[bytes]) -> None:
    with pipe:
        tar = tarfile.open(fileobj=pipe, mode="w|")  # noqa: SIM115 - its close would pad the archive
        for name, path in files.items():
            tar.add(path, name, filter=_readable)
        stream = cast("IO[bytes]", tar.fileobj)
        stream.write(END_OF_ARCHIVE)
        stream.close()  # writes what it has buffered; the pipe stays open


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = UID
    entry.mode = 0o644
    return entry


def _content(files: Files) -> str:
    return digest(f"{name} {sha256(path)}" for name, path in sorted(files.items()))
