"""Unpacking archives, with and without the filter of newer Pythons."""

import io
import tarfile
from pathlib import Path

import pytest

from suite.archives import extract


@pytest.fixture(params=["this Python", "Python 3.11.2"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python 3.11.2":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def archive(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
        entry.size = 4 if kind == tarfile.REGTYPE else 0
        tar.addfile(entry, io.BytesIO(b"text"))
    packed.seek(0)
    return tarfile.open(fileobj=packed)


@pytest.mark.usefixtures("python")
@pytest.mark.filterwarnings("ignore:Python 3.14")
def test_files_are_unpacked(tmp_path: Path) -> None:
    extract(archive("a/b"), tmp_path)
    assert (tmp_path / "a/b").read_bytes() == b"text"


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    ("name", "kind"), [("../b", tarfile.REGTYPE), ("b", tarfile.SYMTYPE), ("b", tarfile.FIFOTYPE)]
)
def test_an_entry_that_leads_outside_is_refused(name: str, kind: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(tarfile.TarError):
        extract(archive(name, kind), tmp_path / "a")
    assert not [*(tmp_path / "a").iterdir()] and [*tmp_path.iterdir()] == [tmp_path / "a"]
