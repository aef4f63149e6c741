"""A run as one file: a .tar.gz whose first member lists the size and the SHA-256 of the others.

Equal runs give equal files: members are sorted, and have no times, owners or modes of their own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from pydantic import NonNegativeInt, ValidationError

from suite.errors import ResultsError
from suite.manifests.strict import Strict, first_problem
from suite.paths import part_of, sha256
from suite.results import checksums, store

MANIFEST = "manifest.json"
FORMAT = 1
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
MAX_MANIFEST_BYTES = 2**26
MAX_RUN_BYTES = 2**34
CHUNK_BYTES = 2**20


class Member(Strict):
    """A file of an exported run."""

    size_bytes: NonNegativeInt
    sha256: str


class Manifest(Strict):
    """The first member of an exported run; `files` has the others by their path in the run."""

    format: int
    run_id: str
    files: dict[str, Member]


def write(folder: Path, file: Path) -> Manifest:
    """Write the run in `folder` to `file`, which appears when it is complete.

    Raise ResultsError where the folder has no records, or `file` exists or cannot be written.
    """
    if not store.record_files(folder):
        raise ResultsError(f"{folder} has no records", hint="ls results")
    if not RUN_ID.fullmatch(folder.name):
        raise ResultsError(f"{folder.name!r} is not the name of a run", hint="rename its folder")
    if file.exists():
        raise ResultsError(f"{file} exists", hint="choose another name")
    manifest = _manifest(folder)
    part = file.with_name(f".{file.name}.part")
    try:
        # Without a name and a time in the header of gzip, equal runs give equal files.
        with (
            part.open("wb") as raw,
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            _write_members(folder, manifest, tar)
        part.rename(file)
    except OSError as error:
        raise ResultsError(
            f"{file} cannot be written: {error.strerror}", hint="choose another folder"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return manifest


def read(file: Path, results: Path) -> Path:
    """Write the run in `file` into `results`, all of it or nothing; return its folder.

    Raise ResultsError where the run exists, or the file is damaged or not an exported run.
    """
    temporary = None
    try:
        with tarfile.open(file, mode="r|gz") as tar:
            members = iter(tar)
            manifest = _read_manifest(tar, next(members, None), file)
            final = results / manifest.run_id
            if final.exists():
                raise ResultsError(f"{final} exists", hint="move it, or choose other --results")
            results.mkdir(parents=True, exist_ok=True)
            temporary = part_of(results / f"import-{manifest.run_id}")
            _extract(tar, members, manifest, temporary, file)
        temporary.rename(final)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(file, f"not a complete .tar.gz: {error}") from None
    except OSError as error:
        raise ResultsError(
            f"{file} cannot be imported: {error.strerror}", hint="choose other --results"
        ) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return final


def _manifest(folder: Path) -> Manifest:
    names = checksums.files(folder)
    own = (checksums.NAME, checksums.SIGNATURE)
    names += [name for name in own if (folder / name).is_file()]
    files = {
        name: Member(size_bytes=(folder / name).stat().st_size, sha256=sha256(folder / name))
        for name in sorted(names)
    }
    return Manifest(format=FORMAT, run_id=folder.name, files=files)


def _write_members(folder: Path, manifest: Manifest, tar: tarfile.TarFile) -> None:
    text = json.dumps(manifest.model_dump(), indent=1).encode() + b"\n"
    _add(tar, MANIFEST, len(text), io.BytesIO(text))
    for name, member in manifest.files.items():
        with (folder / name).open("rb") as content:
            _add(tar, f"{manifest.run_id}/{name}", member.size_bytes, content)


def _add(tar: tarfile.TarFile, name: str, size_bytes: int, content: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)  # time, owner and group are 0
    info.size, info.mode = size_bytes, 0o644
    tar.addfile(info, content)


def _read_manifest(tar: tarfile.TarFile, member: tarfile.TarInfo | None, file: Path) -> Manifest:
    """The manifest, which must be the first member."""
    if member is None or member.name != MANIFEST or not member.isreg():
        raise _damaged(file, f"its first member is not {MANIFEST}")
    if member.size > MAX_MANIFEST_BYTES:
        raise _damaged(file, f"its manifest has {member.size:,} bytes")
    content = tar.extractfile(member)
    assert content is not None  # a regular file
    try:
        manifest = Manifest.model_validate_json(content.read())
    except ValidationError as error:
        raise _damaged(file, f"{MANIFEST}: {first_problem(error)}") from None
    if manifest.format != FORMAT:
        raise ResultsError(
            f"{file}: format {manifest.format}, this dlsuite reads {FORMAT}",
            hint="import it with the dlsuite version that exported it",
        )
    if not RUN_ID.fullmatch(manifest.run_id):
        raise _damaged(file, f"{manifest.run_id!r} is not the name of a run")
    if sum(member.size_bytes for member in manifest.files.values()) > MAX_RUN_BYTES:
        raise _damaged(file, f"its files have more than {MAX_RUN_BYTES / 2**30:.0f} GiB")
    for name in manifest.files:
        if not _inside(name):
            raise _damaged(file, f"{name!r} is not a path inside a run")
    return manifest


def _inside(name: str) -> bool:
    """Whether a path has only plain parts, so that it stays inside the folder of its run."""
    parts = PurePosixPath(name).parts
    plain = all(part not in ("..", "/") and not part.startswith(".") for part in parts)
    return (
        bool(parts) and plain and "/".join(parts) == name and "\\" not in name and "\0" not in name
    )


def _extract(
    tar: tarfile.TarFile,
    members: Iterator[tarfile.TarInfo],
    manifest: Manifest,
    folder: Path,
    file: Path,
) -> None:
    """Write the members into `folder`; each must be a regular file as the manifest lists it."""
    left = dict(manifest.files)
    for member in members:
        prefix, _, name = member.name.partition("/")
        expected = left.pop(name, None) if prefix == manifest.run_id else None
        if expected is None:
            raise _damaged(file, f"{member.name!r} is not in its manifest, or twice in the file")
        if not member.isreg() or member.issparse():
            raise _damaged(file, f"{member.name!r} is not a regular file")
        if member.size != expected.size_bytes:
            raise _damaged(
                file, f"{name}: expected {expected.size_bytes:,} bytes, found {member.size:,}"
            )
        content = tar.extractfile(member)
        assert content is not None  # a regular file
        found = _copy(content, folder / name)
        if found != expected.sha256:
            raise _damaged(file, f"{name}: expected SHA-256 {expected.sha256}, found {found}")
    if left:
        raise _damaged(file, f"{min(left)} is missing")


def _copy(content: IO[bytes], path: Path) -> str:
    """Write a new file; return the SHA-256 of its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as copy:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()


def _damaged(file: Path, reason: str) -> ResultsError:
    return ResultsError(f"{file}: not imported: {reason}", hint="export the run again")
