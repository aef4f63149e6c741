"""A user's image folder, decoded once into the shared format by several processes, resumably.

The work lies in a folder beside the prepared one, `.NAME-part`. Each chunk of images is written to
its place in the split's .npy file and then noted in a journal; what is noted is not done again,
whatever ended the work. Only a complete work takes the place of what was prepared before.
"""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from suite.datasets.formats import listing, prepared
from suite.datasets.formats.decode import Chunk, begin, decode
from suite.datasets.formats.journal import Journal
from suite.datasets.formats.listing import Listing
from suite.errors import DataError
from suite.manifests.datasets import SPLITS, DatasetManifest, Split
from suite.messages import Notify
from suite.paths import digest
from suite.worker import host

CHUNK = 128  # images: 19 MB at 224 x 224, a second or two of one process
TELL_S = 10.0
HEADER = 128  # bytes before the first row of an .npy file of our shapes
JOURNAL = "journal.jsonl"


def prepare(manifest: DatasetManifest, place: Path, source: Path, notify: Notify) -> Path:
    """Decode the images of `source` into `place`; return it. An unchanged folder is left alone.

    DataError where `source` is laid out otherwise, has gone, or the disk is too small.
    """
    notify(f"{manifest.name}: looking at {source}")
    found = listing.read(source.resolve())
    if _is_current(place, found):
        notify(f"{manifest.name}: prepared from {source}, which has not changed since")
        return place
    part = place.with_name(f".{place.name}-part")
    part.mkdir(parents=True, exist_ok=True)
    identity = digest([found.sha256, f"{manifest.shape} {CHUNK} {prepared.FORMAT_VERSION}"])
    with Journal(part / JOURNAL, identity) as journal:
        work = _Work(manifest, part, found, journal, notify)
        work.make_room()
        work.decode()
        samples = {split: work.complete(split) for split in SPLITS}
        images = prepared.Images(
            source_folder=str(found.root),
            sha256=found.sha256,
            classes=found.classes,
            samples=samples,
            unreadable=work.unreadable(),
        )
        notify(f"{manifest.name}: computing checksums")
        prepared.write(part, manifest.name, str(found.root), images)
        shutil.rmtree(place, ignore_errors=True)
        part.rename(place)
        (place / JOURNAL).unlink()
    return place


def _is_current(place: Path, found: Listing) -> bool:
    try:
        description = prepared.read(place)
    except ValueError:
        return False
    if description is None or description.images is None:
        return False
    held = description.images
    same = (held.source_folder, held.sha256) == (str(found.root), found.sha256)
    return same and prepared.damaged(place, description, full=False) is None


class _Work:
    """One preparation: the rows of each split in `part`, and the journal of what is done."""

    def __init__(
        self,
        manifest: DatasetManifest,
        part: Path,
        found: Listing,
        journal: Journal,
        notify: Notify,
    ) -> None:
        self._name = manifest.name
        self._shape = manifest.shape
        self._part = part
        self._found = found
        self._journal = journal
        self._notify = notify

    def make_room(self) -> None:
        """Make the files that the rows go to, where none of their rows is done."""
        if not all(self._rows(split).exists() for split in SPLITS):
            self._journal.clear()
        begun = {split for split, _ in self._journal.done}
        missing = self._row_bytes * sum(len(chunk.names) for chunk in self._missing())
        free = shutil.disk_usage(self._part).free
        if missing > free:
            raise DataError(
                f"{self._part.parent} has {free / 2**30:.1f} GiB free, "
                f"{self._name} needs {missing / 2**30:.1f} GiB",
                hint="make room, or set DLSUITE_HOME to a folder on a larger disk",
            )
        for split in SPLITS:
            if split not in begun:
                samples = len(self._found.names[split])
                with self._rows(split).open("wb") as file:
                    file.write(_header((samples, *self._shape)))
                    file.truncate(HEADER + samples * self._row_bytes)

    def decode(self) -> None:
        """Decode what is not done yet, each chunk in one of several processes."""
        chunks = self._missing()
        if not chunks:
            return
        pool = ProcessPoolExecutor(
            min(len(chunks), len(host.cpus())),
            mp_context=multiprocessing.get_context("spawn"),  # fork and threads do not go together
            initializer=begin,
        )
        try:
            self._collect(pool, chunks)
        except (OSError, MemoryError, BrokenProcessPool) as error:
            raise DataError(
                f"{self._name} is not complete: {error}",
                hint="the same command goes on from here; what is decoded is kept",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def complete(self, split: Split) -> int:
        """Fill the rows of unreadable files with the last rows; write the labels and names.

        Return how many samples the split has. Ends the same when it is killed and done again.
        """
        names, rows = self._found.names[split], self._rows(split)
        unreadable = self.unreadable()
        good = np.array([name not in unreadable for name in names])
        samples = int(good.sum())
        if not samples:
            raise DataError(
                f"{self._found.root}: no image of {split} can be read", hint=listing.HINT
            )
        order = np.arange(samples)
        order[~good[:samples]] = samples + np.flatnonzero(good[samples:])
        size = HEADER + samples * self._row_bytes
        if rows.stat().st_size != size:
            values = np.memmap(rows, np.uint8, "r+", HEADER, (len(names), *self._shape))
            for row in np.flatnonzero(~good[:samples]):
                values[row] = values[order[row]]
            values.flush()
            with rows.open("r+b") as file:
                file.write(_header((samples, *self._shape)))
                file.truncate(size)
        np.save(self._part / f"{split}_labels.npy", self._found.labels[split][order])
        text = json.dumps([names[row] for row in order], indent=0)
        (self._part / f"{split}_files.json").write_text(text, encoding="utf-8")
        return samples

    def unreadable(self) -> dict[str, str]:
        return {name: why for bad in self._journal.done.values() for name, why in bad.items()}

    def _collect(self, pool: ProcessPoolExecutor, chunks: list[Chunk]) -> None:
        total = sum(len(names) for names in self._found.names.values())
        done = total - sum(len(chunk.names) for chunk in chunks)
        told = time.monotonic()
        self._notify(f"{self._name}: {done:,} of {total:,} images are decoded")
        futures = self._submit(pool, chunks)
        for future in as_completed(futures):
            chunk = futures[future]
            self._journal.add(chunk.split, chunk.first, future.result())
            done += len(chunk.names)
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                self._notify(f"{self._name}: {done:,} of {total:,} images are decoded")

    def _submit(
        self, pool: ProcessPoolExecutor, chunks: list[Chunk]
    ) -> dict[Future[dict[str, str]], Chunk]:
        root, size = self._found.root, self._shape[-1]
        with _deaf():  # the first of them start the processes
            return {
                pool.submit(decode, chunk, root, self._rows(chunk.split), HEADER, size): chunk
                for chunk in chunks
            }

    def _missing(self) -> list[Chunk]:
        return [
            Chunk(split=split, first=first, names=names[first : first + CHUNK])
            for split, names in self._found.names.items()
            for first in range(0, len(names), CHUNK)
            if (split, first) not in self._journal.done
        ]

    def _rows(self, split: str) -> Path:
        return self._part / f"{split}_inputs.npy"

    @property
    def _row_bytes(self) -> int:
        return math.prod(self._shape)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C goes to every process of a terminal; those started in the block never hear it.

    This one hears it when the block ends: a process half started would complain.
    """
    heard = []
    handler = signal.signal(signal.SIGINT, lambda *caught: heard.append(caught))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a new process inherits it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if heard:
        raise KeyboardInterrupt


def _header(shape: tuple[int, ...]) -> bytes:
    """The beginning of an .npy file of bytes; numpy pads it, so that a count may be changed."""
    buffer = io.BytesIO()
    fields = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    assert len(buffer.getvalue()) == HEADER
    return buffer.getvalue()
