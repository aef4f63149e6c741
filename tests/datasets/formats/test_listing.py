"""Folders as users have them: with files of other programs, empty classes and odd names."""

import os
from pathlib import Path

import numpy as np
import pytest

from suite.datasets.formats import listing
from suite.errors import DataError

HELPERS = [
    ".ipynb_checkpoints",
    "@eaDir",
    "__MACOSX",
    "lost+found",
    ".thumbnails",
    "#recycle",
    "$RECYCLE.BIN",
    "System Volume Information",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Classes b and d; what is in the files does not matter here."""
    for split in ("train", "val"):
        for name in ("b", "d"):
            put(tmp_path / "images" / split / name / "1.jpg")
    return tmp_path / "images"


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_folders_and_files_of_other_programs_change_no_label(root: Path) -> None:
    before = listing.read(root)
    assert before.notes == ()
    for name in HELPERS:
        put(root / "train" / name / "1.jpg")
        put(root / "val" / name / "1.jpg")
        put(root / "train" / "b" / name / "1.jpg")
    for name in ("._1.jpg", "Thumbs.db", ".DS_Store"):
        put(root / "train" / "d" / name)
    found = listing.read(root)
    assert found.classes == ("b", "d") and found.sha256 == before.sha256
    for split in ("train", "test"):
        assert found.names[split] == before.names[split]  # type: ignore[index]
        assert np.array_equal(found.labels[split], before.labels[split])  # type: ignore[index]
    (note,) = found.notes
    assert note.startswith("ignored 27 hidden files and folders of other programs: train/#recycle")
    assert note.endswith(" and 22 more")


def test_other_files_and_folders_of_a_class_are_named(root: Path) -> None:
    put(root / "train" / "b" / "notes.txt")
    put(root / "train" / "b" / "more" / "2.jpg")
    (root / "val" / "d" / "gone.png").symlink_to("nowhere")
    (root / "val" / "d" / "loop.png").symlink_to("loop.png")
    (note,) = listing.read(root).notes
    assert note.endswith("train/b/more, train/b/notes.txt, val/d/gone.png, val/d/loop.png")


def test_a_link_to_a_folder_or_file_is_followed(root: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "2.jpg")
    (root / "train" / "c").symlink_to(tmp_path / "elsewhere")
    (root / "train" / "b" / "2.jpg").symlink_to(tmp_path / "elsewhere" / "2.jpg")
    found = listing.read(root)
    assert found.classes == ("b", "c", "d") and "train/b/2.jpg" in found.names["train"]


def test_a_class_without_training_images_is_refused(root: Path) -> None:
    put(root / "train" / "c" / "images" / "1.jpg")
    with pytest.raises(DataError, match=r"folders without images: train/c \(.*one: images/\)"):
        listing.read(root)


def test_a_class_that_only_one_split_has_is_refused_or_noted(root: Path) -> None:
    put(root / "train" / "a" / "1.jpg")
    found = listing.read(root)
    assert list(listing.without(found.classes, found.labels)) == [
        "1 classes have no image for test: a"
    ]
    put(root / "val" / "c" / "1.jpg")
    with pytest.raises(DataError, match="val/c is not in train"):
        listing.read(root)


def test_classes_that_are_numbers_are_in_the_order_of_text(root: Path) -> None:
    for split in ("train", "val"):
        for name in ("b", "d"):
            (root / split / name / "1.jpg").unlink()
            (root / split / name).rmdir()
        for number in range(12):
            put(root / split / str(number) / "1.jpg")
    found = listing.read(root)
    assert found.classes == ("0", "1", "10", "11", *"23456789")
    assert found.notes == (
        "class folders are in the order of their names as text: label 1 is 1, label 2 is 10",
    )


def test_two_classes_that_are_numbers_are_in_the_order_of_text(root: Path) -> None:
    for split in ("train", "val"):
        for old, new in (("b", "9"), ("d", "10")):
            (root / split / old).rename(root / split / new)
    note = "class folders are in the order of their names as text: label 1 is 9"
    assert listing.read(root).notes == (note,)


@pytest.mark.parametrize("place", ["train/caf\udce9/1.jpg", "train/b/caf\udce9.jpg"])
def test_a_name_that_is_not_utf8_is_refused_while_listing(root: Path, place: str) -> None:
    put(root / place)
    with pytest.raises(DataError, match=r"caf\\xe9(.jpg)?: the name is not UTF-8") as caught:
        listing.read(root)
    str(caught.value).encode()


def test_a_folder_below_one_that_is_not_utf8_is_refused(root: Path, tmp_path: Path) -> None:
    moved = root.rename(tmp_path / "bild\udcff")
    with pytest.raises(DataError, match=r"bild\\xff: the name is not UTF-8"):
        listing.read(moved)


def test_line_ends_and_long_names_are_accepted_and_shown_on_one_line(root: Path) -> None:
    put(root / "train" / "a\nb" / f"{'x' * 250}.jpg")
    put(root / "train" / "b" / "two\nlines\x1b[31m.txt")
    found = listing.read(root)
    assert found.classes[0] == "a\nb"
    assert found.notes[0].endswith(r"train/b/two\nlines\x1b[31m.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_a_data_error(root: Path) -> None:
    (root / "train" / "b").chmod(0)
    with pytest.raises(DataError, match="train/b: Permission denied"):
        listing.read(root)
