"""A user's image folder, decoded once into the shared format by several processes.

The intermediate files are in `.NAME-part`, a folder beside the prepared one. Each chunk of images
is written to its rows in the split's .npy file and then recorded in a journal. After an
interruption of any kind, the next call skips the recorded chunks. An earlier prepared folder is
replaced only when the new one is complete.
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
from numpy.typing import NDArray

from suite.datasets.formats import listing, prepared
from suite.datasets.formats.decode import Chunk, Form, begin, decode, photograph
from suite.datasets.formats.journal import Journal
from suite.datasets.formats.listing import Listing
from suite.errors import DataError
from suite.manifests.datasets import SPLITS, DatasetManifest, Split
from suite.messages import Notify
from suite.paths import digest
from suite.worker import host

CHUNK = 128  # images: 19 MB at 224 x 224, one or two seconds in one process
PROGRESS_S = 10.0  # between progress messages
HEADER = 128  # bytes before the first row of an .npy file of our shapes
JOURNAL = "journal.jsonl"


def prepare(manifest: DatasetManifest, target: Path, source: Path, notify: Notify) -> Path:
    """Decode the photographs of `source` into `target`, in the manifest's shape; return it.

    Raise DataError where `source` has another layout or does not exist, or the disk is too small.
    """
    notify(f"{manifest.name}: listing {source}")
    found = listing.read(source.resolve())
    return write(manifest.name, photograph(manifest.shape[-1]), target, found, notify)


def write(name: str, form: Form, target: Path, found: Listing, notify: Notify) -> Path:
    """Decode the listed images into `target`, the dataset `name`; return it.

    Nothing is done where `target` was prepared from the same unchanged folder. Raise DataError
    where the disk is too small, or no image of a split can be read.
    """
    if _is_current(target, found):
        notify(f"{name}: prepared from {found.root}, which has not changed since")
        return target
    part = target.with_name(f".{target.name}-part")
    part.mkdir(parents=True, exist_ok=True)
    identity = digest([found.sha256, f"{form} {CHUNK} {prepared.FORMAT_VERSION}"])
    with Journal(part / JOURNAL, identity) as journal:
        preparation = _Preparation(name, form, part, found, journal, notify)
        preparation.allocate()
        preparation.decode()
        samples = {split: preparation.complete(split) for split in SPLITS}
        images = prepared.Images(
            source_folder=str(found.root),
            sha256=found.sha256,
            classes=found.classes,
            samples=samples,
            unreadable=preparation.unreadable(),
            notes=(*found.notes, *listing.without(found.classes, preparation.labels())),
        )
        notify(f"{name}: computing checksums")
        prepared.write(part, name, str(found.root), images)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        (target / JOURNAL).unlink()
    return target


def _is_current(target: Path, found: Listing) -> bool:
    """Whether `target` is intact and was prepared from the images of `found`."""
    try:
        description = prepared.read(target)
    except ValueError:
        return False
    if description is None or description.images is None:
        return False
    images = description.images
    same = (images.source_folder, images.sha256) == (str(found.root), found.sha256)
    return same and prepared.damaged(target, description, full=False) is None


class _Preparation:
    """One preparation: the rows of each split in `part`, and the journal of the decoded chunks."""

    def __init__(
        self,
        name: str,
        form: Form,
        part: Path,
        found: Listing,
        journal: Journal,
        notify: Notify,
    ) -> None:
        self._name = name
        self._form = form
        self._part = part
        self._found = found
        self._journal = journal
        self._notify = notify

    def allocate(self) -> None:
        """Create the file of each split that has no decoded rows yet, with its full size."""
        if not all(self._rows(split).exists() for split in SPLITS):
            self._journal.clear()
        started = {split for split, _ in self._journal.done}
        missing = self._row_bytes * sum(len(chunk.names) for chunk in self._missing())
        free = shutil.disk_usage(self._part).free
        if missing > free:
            raise DataError(
                f"{self._part.parent} has {free / 2**30:.1f} GiB free, "
                f"{self._name} needs {missing / 2**30:.1f} GiB",
                hint="free some space, or set DLSUITE_HOME to a folder on a larger disk",
            )
        for split in SPLITS:
            if split not in started:
                samples = len(self._found.names[split])
                with self._rows(split).open("wb") as file:
                    file.write(_header((samples, *self._form.shape)))
                    file.truncate(HEADER + samples * self._row_bytes)

    def decode(self) -> None:
        """Decode the remaining chunks in several processes."""
        chunks = self._missing()
        if not chunks:
            return
        pool = ProcessPoolExecutor(
            min(len(chunks), len(host.cpus())),
            mp_context=multiprocessing.get_context("spawn"),  # fork is unsafe beside threads
            initializer=begin,
        )
        try:
            self._collect(pool, chunks)
        except (OSError, MemoryError, BrokenProcessPool) as error:
            raise DataError(
                f"{self._name} is not complete: {error}",
                hint="the same command continues; decoded images are kept",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def complete(self, split: Split) -> int:
        """Replace the rows of unreadable files by the last rows; write the labels and names.

        Return the number of samples in the split. A repetition after a kill has the same result.
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
            values = np.memmap(rows, np.uint8, "r+", HEADER, (len(names), *self._form.shape))
            for row in np.flatnonzero(~good[:samples]):
                values[row] = values[order[row]]
            values.flush()
            with rows.open("r+b") as file:
                file.write(_header((samples, *self._form.shape)))
                file.truncate(size)
        np.save(self._part / f"{split}_labels.npy", self._found.labels[split][order])
        text = json.dumps([names[row] for row in order], indent=0)
        (self._part / f"{split}_files.json").write_text(text, encoding="utf-8")
        return samples

    def labels(self) -> dict[Split, NDArray[np.int32]]:
        """The labels of the completed splits."""
        return {split: np.load(self._part / f"{split}_labels.npy") for split in SPLITS}

    def unreadable(self) -> dict[str, str]:
        """The unreadable files, each with the reason."""
        chunks = self._journal.done.values()
        return {name: reason for unreadable in chunks for name, reason in unreadable.items()}

    def _collect(self, pool: ProcessPoolExecutor, chunks: list[Chunk]) -> None:
        """Decode the chunks; record each in the journal, and report progress."""
        total = sum(len(names) for names in self._found.names.values())
        done = total - sum(len(chunk.names) for chunk in chunks)
        reported_s = time.monotonic()
        self._notify(f"{self._name}: {done:,} of {total:,} images are decoded")
        futures = self._submit(pool, chunks)
        for future in as_completed(futures):
            chunk = futures[future]
            self._journal.add(chunk.split, chunk.first, future.result())
            done += len(chunk.names)
            if time.monotonic() - reported_s > PROGRESS_S:
                reported_s = time.monotonic()
                self._notify(f"{self._name}: {done:,} of {total:,} images are decoded")

    def _submit(
        self, pool: ProcessPoolExecutor, chunks: list[Chunk]
    ) -> dict[Future[dict[str, str]], Chunk]:
        root = self._found.root
        with _interrupts_blocked():  # the first submissions start the processes
            return {
                pool.submit(decode, chunk, root, self._rows(chunk.split), HEADER, self._form): chunk
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
        return math.prod(self._form.shape)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, and block it in the processes started meanwhile.

    The terminal sends Ctrl-C to all processes. Without this, a decoding process would print a
    traceback, even while it starts.
    """
    received = []
    handler = signal.signal(signal.SIGINT, lambda *caught: received.append(caught))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if received:
        raise KeyboardInterrupt


def _header(shape: tuple[int, ...]) -> bytes:
    """The header of an .npy file of bytes; numpy pads it, so the number of rows may change."""
    buffer = io.BytesIO()
    fields = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    assert len(buffer.getvalue()) == HEADER
    return buffer.getvalue()
