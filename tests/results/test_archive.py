"""A run as one file: the same file for the same run, and nothing written of a bad one."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.results import archive, checksums, store
from tests.results.test_index import write_run

RUN = "20260101-120000-quick"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "results", RUN, 100.0, 101.0)
    (folder / "logs").mkdir()
    (folder / "logs" / "a.log").write_text("done\n")
    checksums.write(folder)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_imported_run_has_the_files_of_the_exported_one(run: Path, tmp_path: Path) -> None:
    manifest = archive.write(run, tmp_path / "run.tar.gz")
    assert set(manifest.files) == set(content(run))
    imported = archive.read(tmp_path / "run.tar.gz", tmp_path / "other" / "results")
    assert imported == tmp_path / "other" / "results" / RUN
    assert content(imported) == content(run)
    assert store.read(imported) == store.read(run)
    assert [path.name for path in imported.parent.iterdir()] == [RUN]


def test_equal_runs_give_equal_files(run: Path, tmp_path: Path) -> None:
    archive.write(run, tmp_path / "one.tar.gz")
    for path in run.rglob("*"):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o700)
    archive.write(run, tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_hidden_files_and_links_are_not_exported(run: Path, tmp_path: Path) -> None:
    before = set(content(run))
    (run / ".x.json.part").touch()
    (run / "link").symlink_to("/etc/passwd")
    assert set(archive.write(run, tmp_path / "run.tar.gz").files) == before


def test_what_exists_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.tar.gz"
    archive.write(run, file)
    with pytest.raises(ResultsError, match=r"run\.tar\.gz exists"):
        archive.write(run, file)
    before = content(run)
    with pytest.raises(ResultsError, match=f"{RUN} exists"):
        archive.read(file, tmp_path / "results")
    assert content(run) == before


def test_a_folder_without_records_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"):
        archive.write(tmp_path, tmp_path / "x.tar.gz")
    assert not list(tmp_path.iterdir())


def write_tar(file: Path, run_id: str, names: list[str], *, text: bytes = b"text") -> None:
    """An exported run whose members have these names and `text`."""
    member = {"size_bytes": 4, "sha256": sha256(b"text").hexdigest()}
    files = {name.removeprefix(f"{run_id}/"): member for name in names}
    manifest = json.dumps({"format": 1, "run_id": run_id, "files": files}).encode()
    with tarfile.open(file, "w:gz") as tar:
        for name, content in (("manifest.json", manifest), *((name, text) for name in names)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize(
    ("run_id", "name", "message"),
    [
        ("r", "r/../../x", r"'../../x' is not a path inside a run"),
        ("r", "/etc/x", r"'/etc/x' is not a path inside a run"),
        ("r", "r//x", "is not a path inside a run"),
        ("r", "r/.hidden", "is not a path inside a run"),
        ("r", "r/a\\b", "is not a path inside a run"),
        ("r", "r/", "is not a path inside a run"),
        ("../r", "../r/x", r"'../r' is not the name of a run"),
        ("..", "../x", r"'..' is not the name of a run"),
        (".r", ".r/x", "is not the name of a run"),
    ],
)
def test_a_path_that_leaves_the_run_is_refused(
    tmp_path: Path, run_id: str, name: str, message: str
) -> None:
    write_tar(tmp_path / "run.tar.gz", run_id, [name])
    nothing_is_imported(tmp_path, message)


def nothing_is_imported(tmp_path: Path, message: str) -> None:
    results = tmp_path / "new" / "results"
    with pytest.raises(ResultsError, match=message) as caught:
        archive.read(tmp_path / "run.tar.gz", results)
    assert "\n" not in str(caught.value)
    assert not results.exists() or not list(results.iterdir())
    assert {path.name for path in tmp_path.iterdir()} <= {"run.tar.gz", "new", "results", "home"}


def link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0


def hard_link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname, info.size = tarfile.LNKTYPE, "manifest.json", 0


def device(info: tarfile.TarInfo) -> None:
    info.type, info.size = tarfile.CHRTYPE, 0


def folder(info: tarfile.TarInfo) -> None:
    info.type, info.size = tarfile.DIRTYPE, 0


def renamed(info: tarfile.TarInfo) -> None:
    info.name = f"{RUN}/../../x"


def of_other_run(info: tarfile.TarInfo) -> None:
    info.name = info.name.replace(RUN, "other")


def longer(info: tarfile.TarInfo) -> None:
    info.size += 1


def none(info: tarfile.TarInfo) -> None: ...


def rewrite(
    file: Path, change: Callable[[tarfile.TarInfo], None], *, text: bytes | None = None
) -> None:
    """Change the header of the member logs/a.log and, where given, its content."""
    with tarfile.open(file, "r:gz") as tar:
        members = [(each, tar.extractfile(each).read()) for each in tar]  # type: ignore[union-attr]
    with tarfile.open(file, "w:gz") as tar:
        for info, content in members:
            if info.name.endswith("a.log"):
                content = text or content
                change(info)
            tar.addfile(info, io.BytesIO(content + b" "))


@pytest.mark.parametrize(
    ("change", "text", "message"),
    [
        (link, None, r"a\.log' is not a regular file"),
        (hard_link, None, r"a\.log' is not a regular file"),
        (device, None, r"a\.log' is not a regular file"),
        (folder, None, r"a\.log' is not a regular file"),
        (renamed, None, "is not in its manifest"),
        (of_other_run, None, "is not in its manifest"),
        (longer, None, r"logs/a\.log: expected 5 bytes, found 6"),
        (none, b"dome\n", r"logs/a\.log: expected SHA-256"),
    ],
)
def test_a_member_that_is_not_as_listed_is_refused(
    run: Path,
    tmp_path: Path,
    change: Callable[[tarfile.TarInfo], None],
    text: bytes | None,
    message: str,
) -> None:
    archive.write(run, tmp_path / "run.tar.gz")
    rewrite(tmp_path / "run.tar.gz", change, text=text)
    nothing_is_imported(tmp_path, message)


def test_a_member_that_is_twice_or_not_there_is_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "run.tar.gz", "r", ["r/x", "r/x"])
    nothing_is_imported(tmp_path, "'r/x' is not in its manifest, or twice in the file")
    write_tar(tmp_path / "run.tar.gz", "r", ["r/x", "r/y"])
    whole = gzip.decompress((tmp_path / "run.tar.gz").read_bytes())
    with_one = whole[: whole.index(b"r/y\0")].ljust(10240, b"\0")
    (tmp_path / "run.tar.gz").write_bytes(gzip.compress(with_one))
    nothing_is_imported(tmp_path, "y is missing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a complete .tar.gz"),
        (b"text", "not a complete .tar.gz"),
        (gzip.compress(b"text"), "not a complete .tar.gz|its first member"),
    ],
    ids=["empty", "text", "compressed text"],
)
def test_a_file_that_is_no_exported_run_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "run.tar.gz").write_bytes(content)
    nothing_is_imported(tmp_path, message)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_is_refused(run: Path, tmp_path: Path, share: float) -> None:
    file = tmp_path / "run.tar.gz"
    archive.write(run, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    nothing_is_imported(tmp_path, "not a complete .tar.gz")


def test_another_format_and_too_much_data_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(tmp_path / "run.tar.gz", "r", ["r/x"])
    monkeypatch.setattr(archive, "MAX_RUN_BYTES", 3)
    nothing_is_imported(tmp_path, "its files have more than")
    monkeypatch.setattr(archive, "FORMAT", 2)
    nothing_is_imported(tmp_path, "format 1, this dlsuite reads 2")


def test_a_size_below_zero_is_refused(tmp_path: Path) -> None:
    """Otherwise it would hide the size of another member from the limit of their sum."""
    files = {"x": {"size_bytes": -1, "sha256": ""}}
    manifest = json.dumps({"format": 1, "run_id": "r", "files": files}).encode()
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo(archive.MANIFEST)
        info.size = len(manifest)
        tar.addfile(info, io.BytesIO(manifest))
    nothing_is_imported(tmp_path, "size_bytes")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"none\.tar\.gz cannot be imported: No such file"):
        archive.read(tmp_path / "none.tar.gz", tmp_path / "results")
