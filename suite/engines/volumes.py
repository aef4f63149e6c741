"""Volumes: how files get to a worker and back, through the engine's API alone.

Nothing relies on a file system that host and engine share, so a remote engine works like a local
one, and no file of another user appears on the host.
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
from typing import IO

from suite.engines.docker import Container, Daemon, Labels
from suite.paths import digest, sha256

UID = 10001  # of the user `worker` in the images, to whom all files in volumes belong
COMPLETE = ".complete"  # in a volume that was filled whole
Files = Mapping[str, Path]


class Volumes:
    """The volumes of one orchestrator; those that carry its `labels` go when it ends."""

    def __init__(self, daemon: Daemon, owner: str, labels: Labels) -> None:
        self._daemon = daemon
        self._owner = owner
        self._labels = labels
        self._filled: set[str] = set()
        self._filling = threading.Lock()  # runs in several threads ask for the same volumes

    def data(self, folder: Path, image_id: str) -> str:
        """The volume with a dataset's files: filled once and kept, found again by content.

        A prepared dataset's dataset.json holds the digest of every file; it stands for them.
        """
        files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
        told = {name: path for name, path in files.items() if name == "dataset.json"}
        key = _content(told or files)
        name, labels = f"dlsuite-data-{key[:12]}", {"dlsuite": "data", "dlsuite.content": key}
        return self._hold(name, labels, files, image_id)

    def inputs(self, files: Files, image_id: str) -> str:
        """A volume with these files, of use to this orchestrator only."""
        stats = {name: path.stat() for name, path in files.items()}
        key = digest(f"{files[n]} {stat.st_size} {stat.st_mtime_ns}" for n, stat in stats.items())
        name = f"dlsuite-inputs-{self._owner}-{key[:12]}"
        return self._hold(name, {**self._labels, "dlsuite": "inputs"}, files, image_id)

    def collect(self, volume: str, path: str, folder: Path, image_id: str) -> None:
        """Bring home a folder of a volume whose container is gone, if it is there."""
        with self._helper(volume, image_id) as helper:
            fetch(helper, f"/data/{path}", folder)

    def _hold(self, name: str, labels: Labels, files: Files, image_id: str) -> str:
        with self._filling:
            if name not in self._filled:
                self._daemon.make_volume(name, labels)
                with self._helper(name, image_id) as helper, tempfile.TemporaryFile() as nowhere:
                    if not helper.fetch(f"/data/{COMPLETE}", nowhere):
                        send(helper, "/data", files)
                        helper.put("/data", archive({COMPLETE: b""}, uid=UID))
                self._filled.add(name)
        return name

    @contextmanager
    def _helper(self, volume: str, image_id: str) -> Iterator[Container]:
        """A container that never runs, through which the engine reads and writes a volume."""
        helper = self._daemon.create(
            image_id,
            name=f"{volume}-helper-{self._owner}",
            labels={**self._labels, "dlsuite": "helper"},
            network_mode="none",
            volumes={volume: {"bind": "/data", "mode": "rw"}},
        )
        try:
            yield helper
        finally:
            helper.remove()


def fetch(container: Container, path: str, folder: Path) -> bool:
    """Bring a folder of a container home into `folder`; False where there is none."""
    with tempfile.TemporaryFile() as packed:
        if not container.fetch(path, packed):
            return False
        packed.seek(0)
        with tarfile.open(fileobj=packed) as tar:
            tar.extractall(folder, filter="data")
    return True


def archive(entries: Mapping[str, bytes], *, uid: int) -> IO[bytes]:
    """A tar archive of small files, and of folders where the name ends in a slash."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            entry.mode = 0o755 if name.endswith("/") else 0o644
            entry.uid = entry.gid = uid
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed


def send(container: Container, folder: str, files: Files) -> None:
    """Stream files into a folder of a container as one archive, never whole in memory.

    The folder lies on a volume; a name may have folders in it, which are made.
    """
    reading, writing = os.pipe()
    with ThreadPoolExecutor(max_workers=1) as pool:
        packing = pool.submit(_pack, os.fdopen(writing, "wb"), files)
        with os.fdopen(reading, "rb") as pipe:
            container.put(folder, pipe)
    packing.result()  # a file that could not be read makes the volume worthless


def _pack(pipe: IO[bytes], files: Files) -> None:
    with pipe, tarfile.open(fileobj=pipe, mode="w|") as tar:
        for name, path in files.items():
            tar.add(path, name, filter=_readable)


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = UID
    entry.mode = 0o644
    return entry


def _content(files: Files) -> str:
    return digest(f"{name} {sha256(path)}" for name, path in sorted(files.items()))
