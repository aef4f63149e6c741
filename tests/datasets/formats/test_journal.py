from pathlib import Path

import pytest

from suite.datasets.formats.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with the identity "mine" and two chunks done."""
    file = tmp_path / "journal"
    with Journal(file, "mine") as journal:
        journal.add("train", 0, {"a.JPEG": "cut \udcff short"})
        journal.add("test", 2, {})
    return file


def test_recorded_chunks_are_read_back(path: Path) -> None:
    with Journal(path, "mine") as journal:
        assert journal.done == {("train", 0): {"a.JPEG": "cut \udcff short"}, ("test", 2): {}}


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_incomplete_last_line_is_ignored_and_the_others_are_kept(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(path, "mine") as journal:
        assert list(journal.done) == [("train", 0)]
        journal.add("test", 4, {})
    with Journal(path, "mine") as journal:
        assert list(journal.done) == [("train", 0), ("test", 4)]


@pytest.mark.parametrize("content", [b"", b"\0" * 50 + b"\n", b"no journal\n", None])
def test_another_identity_or_a_broken_journal_starts_empty(
    path: Path, content: bytes | None
) -> None:
    if content is not None:
        path.write_bytes(content)
    with Journal(path, "yours" if content is None else "mine") as journal:
        assert journal.done == {}
        journal.add("train", 0, {})
    with Journal(path, "yours" if content is None else "mine") as journal:
        assert list(journal.done) == [("train", 0)]
