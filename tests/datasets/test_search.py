"""Raw files under the names of other libraries."""

import gzip
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from suite.datasets import library
from suite.datasets.formats import cifar_pickle, idx
from suite.errors import DataError
from suite.manifests.datasets import DatasetManifest

Digits = tuple[DatasetManifest, Path]


def prepare(dataset: DatasetManifest, source: Path) -> str:
    library.prepare(dataset, notify=lambda text: None, source=source)
    return library.read(dataset).fingerprint


def test_mnist_is_found_under_every_name(home: Path, tmp_path: Path, digits: Digits) -> None:
    dataset, raw = digits
    expected = prepare(dataset, raw)
    kinds = ("torchvision", "dots", "packed", "keras", "zip", os.fsdecode(b"latin\xe9"))
    folders = {kind: tmp_path / kind for kind in kinds}
    arrays = {}
    for folder in folders.values():
        (folder / "MNIST" / "raw").mkdir(parents=True)
        (folder / "FashionMNIST" / "raw").mkdir(parents=True)
    with zipfile.ZipFile(folders["zip"] / "mnist.zip", "w") as packed:
        for role, file in dataset.files.items():
            content = (raw / file.name).read_bytes()
            dotted = file.name.replace("-idx", ".idx")
            (folders["torchvision"] / "MNIST" / "raw" / file.name).write_bytes(content)
            (folders["torchvision"] / "FashionMNIST" / "raw" / file.name).write_bytes(b"x")
            (folders[kinds[-1]] / file.name).write_bytes(content)
            (folders["dots"] / dotted).write_bytes(content)
            (folders["packed"] / f"{dotted}.gz").write_bytes(gzip.compress(content))
            packed.writestr(f"archive/{dotted}", content)
            split, kind = role.split("_")
            arrays[f"{'x' if kind == 'images' else 'y'}_{split}"] = idx.read(raw / file.name)
    np.savez(folders["keras"] / "mnist.npz", **arrays)
    assert {kind: prepare(dataset, folder) for kind, folder in folders.items()} == dict.fromkeys(
        folders, expected
    )


def test_the_error_says_what_is_there_and_what_fits(
    home: Path, tmp_path: Path, digits: Digits
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mnist.csv").touch()
    with pytest.raises(DataError, match=r"it has mnist\.csv; what fits is the IDX files"):
        prepare(digits[0], tmp_path / "mine")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_for_python_equals_the_binary_one(tmp_path: Path, protocol: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, (3, 3072), np.uint8)
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"labels": [7, 0, 9], b"data": data}, protocol))
    assert cifar_pickle.is_pickle(path.read_bytes())
    expected = b"".join(bytes([k]) + row.tobytes() for k, row in zip([7, 0, 9], data, strict=True))
    assert cifar_pickle.records(path) == expected


def test_a_batch_that_names_a_function_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    with pytest.raises(ValueError, match=r"it names os\.system"):
        cifar_pickle.records(path)


def test_the_content_of_a_file_decides_not_its_suffix(
    home: Path, tmp_path: Path, digits: Digits
) -> None:
    dataset, raw = digits
    mine = tmp_path / "mine"
    mine.mkdir()
    for number, file in enumerate(dataset.files.values()):
        content = (raw / file.name).read_bytes()
        packed = gzip.compress(content) if number % 2 else content
        (mine / (file.name if number % 2 else f"{file.name}.gz")).write_bytes(packed)
    assert prepare(dataset, mine) == prepare(dataset, raw)


def test_what_is_beside_the_files_does_not_hinder(
    home: Path, tmp_path: Path, digits: Digits
) -> None:
    """A pipe, a link to the folder itself, and other datasets of Keras, with pickled objects."""
    dataset, raw = digits
    mine = tmp_path / "mine"
    mine.mkdir()
    arrays = {
        f"{'x' if kind == 'images' else 'y'}_{split}": idx.read(raw / file.name).astype(np.int64)
        for role, file in dataset.files.items()
        for split, kind in [role.split("_")]
    }
    os.mkfifo(mine / "train-images-idx3-ubyte")
    (mine / "broken.npz").write_bytes(b"PK")
    np.savez(mine / "imdb.npz", x_train=np.array([[1], [2, 3]], dtype=object))
    np.save(mine / "array.npy", np.zeros(3))
    (mine / "array.npy").rename(mine / "array.npz")
    (mine / "here").symlink_to(mine)
    (tmp_path / "elsewhere").mkdir()
    np.savez(tmp_path / "elsewhere" / "mnist.npz", **arrays)
    (mine / "shared").symlink_to(tmp_path / "elsewhere")
    assert prepare(dataset, mine) == prepare(dataset, raw)


def test_a_closed_or_broken_archive_is_named(home: Path, tmp_path: Path, digits: Digits) -> None:
    mine = tmp_path / "{mine}"
    mine.mkdir()
    with zipfile.ZipFile(mine / "mnist.zip", "w") as packed:
        packed.writestr("secret", b"x")
    content = bytearray((mine / "mnist.zip").read_bytes())
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + flags] |= 1  # encrypted
    (mine / "mnist.zip").write_bytes(content)
    with tarfile.open(mine / "mnist.tar.gz", "w:xz") as tar:
        (mine / "noise").write_bytes(np.random.default_rng(0).bytes(100_000))
        tar.add(mine / "noise")
    broken = bytearray((mine / "mnist.tar.gz").read_bytes())
    broken[80_000:80_040] = bytes(40)
    (mine / "mnist.tar.gz").write_bytes(broken)
    reasons = r"mnist\.tar\.gz: Corrupt.*; mnist\.zip: .* encrypted.*; what fits is"
    with pytest.raises(DataError, match=reasons):
        prepare(digits[0], mine)
