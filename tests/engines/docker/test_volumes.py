"""Archives that pass to an engine, without one."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from suite.engines.docker import volumes

HEADER = END = 1024  # of a file of at most 512 bytes, with it; of the archive
TIME = 1024  # a second header, with parts of a second


def contents(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        files = ((each, tar.extractfile(each)) for each in tar)
        return {each.name: file.read() if file else b"" for each, file in files}


def test_archives_end_with_their_end_marker_and_have_no_padding(tmp_path: Path) -> None:
    small = volumes.archive({"folder/": b"", "folder/a": b"abc"}, uid=1).read()
    assert contents(small) == {"folder": b"", "folder/a": b"abc"}
    assert len(small) == 512 + HEADER + END
    (tmp_path / "b").write_bytes(b"x" * 512)
    reading, writing = os.pipe()
    volumes._pack({"b": tmp_path / "b"}, os.fdopen(writing, "wb"))
    with os.fdopen(reading, "rb") as pipe:
        streamed = pipe.read()
    assert contents(streamed) == {"b": b"x" * 512}
    assert len(streamed) == TIME + HEADER + END
