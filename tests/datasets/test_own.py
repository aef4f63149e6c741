"""Files of the user become data sets with a name."""

from pathlib import Path

import numpy as np
import pytest

from suite.datasets import library, own
from suite.errors import DataError
from suite.manifests import catalog

RANDOM = np.random.default_rng(1)
IMAGES = RANDOM.integers(0, 256, (40, 1, 6, 6), dtype=np.uint8)
LABELS = np.arange(40) % 4


def quiet(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def npz(**arrays: np.ndarray) -> Path:
    np.savez("My data.npz", **arrays)
    return Path("My data.npz")


def test_arrays_are_prepared_once_under_a_name_with_their_digest() -> None:
    path = npz(X=IMAGES, y=LABELS)
    name = own.register(path, own.Options(), quiet)
    assert name.startswith("my_data_")
    manifest = catalog.dataset(name)
    assert manifest.shape == (1, 6, 6) and manifest.classes == 4
    assert manifest.samples == {"train": 34, "test": 6}
    assert library.verify(manifest) is None and library.ready(manifest, quiet).name == name
    assert own.register(path, own.Options(), lambda text: pytest.fail(text)) == name
    other = own.register(path, own.Options(split=0.5), quiet)
    assert other != name and catalog.own_datasets() == sorted([name, other])
    inputs = np.load(library.folder(manifest) / "train_inputs.npy")
    assert inputs.dtype == np.uint8


def test_numbers_stay_as_they_are() -> None:
    values = RANDOM.normal(size=(40, 3))
    name = own.register(npz(inputs=values, labels=LABELS), own.Options(), quiet)
    folder = library.folder(catalog.dataset(name))
    both = np.concatenate([np.load(folder / f"{each}_inputs.npy") for each in ("train", "test")])
    assert both.dtype == np.float32
    assert sorted(both[:, 0]) == pytest.approx(sorted(values[:, 0]), rel=1e-6)


def test_the_classes_of_pixels_are_in_the_order_of_the_pixels() -> None:
    labels = np.arange(40 * 36).reshape(40, 6, 6) % 3
    manifest = catalog.dataset(own.register(npz(X=IMAGES, y=labels), own.Options(), quiet))
    assert manifest.positions == (36,) and manifest.classes == 3
    kept = np.load(library.folder(manifest) / "test_labels.npy")
    assert kept.shape == (6, 36) and kept.dtype == np.int32
    assert any(np.array_equal(kept[0], each.ravel()) for each in labels)
    with pytest.raises(DataError, match="not for mean_squared_error"):
        own.register(npz(X=IMAGES, y=labels), own.Options(loss="mean_squared_error"), quiet)
    with pytest.raises(DataError, match=r"labels of shape \(40, 5, 6\)"):
        own.register(npz(X=IMAGES, y=labels[:, :5]), own.Options(), quiet)


@pytest.mark.parametrize(
    ("labels", "loss", "outputs"),
    [
        (LABELS[:, None], "cross_entropy", 4),
        (LABELS % 2 == 1, "cross_entropy", 2),
        (np.eye(4)[LABELS], "cross_entropy", 4),
        (LABELS[:, None] > np.arange(3), "binary_cross_entropy", 3),
        (LABELS / 7, "mean_squared_error", 1),
        (np.stack([LABELS, LABELS / 7], axis=1), "mean_squared_error", 2),
    ],
)
def test_the_labels_determine_the_loss(labels: np.ndarray, loss: str, outputs: int) -> None:
    manifest = catalog.dataset(own.register(npz(X=IMAGES, y=labels), own.Options(), quiet))
    assert (manifest.loss, manifest.classes) == (loss, outputs)
    written = np.load(library.folder(manifest) / "train_labels.npy")
    if loss == "cross_entropy":
        assert written.shape == (34,) and written.dtype == np.int32
    else:
        assert written.shape == (34, outputs) and written.dtype == np.float32


def test_another_loss_is_another_data_set() -> None:
    path = npz(X=IMAGES, y=LABELS)
    first = own.register(path, own.Options(), quiet)
    other = own.register(path, own.Options(loss="mean_squared_error"), quiet)
    assert first != other and catalog.dataset(other).loss == "mean_squared_error"


def test_signals_are_images_of_height_one() -> None:
    signals = np.random.default_rng(1).normal(size=(40, 3, 16)).astype(np.float32)
    name = own.register(npz(X=signals, y=LABELS), own.Options(), quiet)
    assert catalog.dataset(name).shape == (3, 1, 16)


def test_two_files_are_one_data_set() -> None:
    np.save("X.npy", IMAGES)
    np.save("y.npy", LABELS)
    with pytest.raises(DataError, match="where are its labels"):
        own.register(Path("X.npy"), own.Options(), quiet)
    name = own.register(Path("X.npy"), own.Options(labels=Path("y.npy")), quiet)
    assert catalog.dataset(name).classes == 4


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"X": IMAGES}, "has X, none of y"),
        ({"a": IMAGES, "y": LABELS}, "has a, y, none of X"),
        ({"X": LABELS, "y": LABELS}, "is neither"),
        ({"X": IMAGES, "y": LABELS[:9]}, "40 samples and int64 labels of shape"),
        ({"X": IMAGES, "y": IMAGES}, "labels of shape"),
        ({"X": IMAGES, "y": LABELS.astype(str)}, "labels of shape"),
        ({"X": IMAGES, "y": LABELS - 1}, "label -1 in row 1"),
        ({"X": IMAGES, "y": LABELS * 1.0}, "classes, or numbers"),
        ({"X": IMAGES, "y": np.where(LABELS == 2, np.nan, 0.5)}, "row 3: target 1 is nan"),
        ({"X": IMAGES[:1], "y": LABELS[:1]}, "too few for a split"),
        ({"X": IMAGES[:0], "y": LABELS[:0]}, r"shape \(0, 1, 6, 6\) is neither"),
        ({"X": np.zeros((40, 0)), "y": LABELS}, r"shape \(40, 0\) is neither"),
        ({"X": IMAGES, "y": np.array(3)}, r"labels of shape \(\)"),
        ({"X": IMAGES, "y": LABELS * 0}, "are 1 classes"),
        ({"X": IMAGES, "y": LABELS * 10**9}, "labels up to 3,000,000,000 are"),
        ({"X": np.where(IMAGES == 7, 1e300, IMAGES), "y": LABELS}, r"1e\+300 is no finite float32"),
        ({"X": np.where(IMAGES == 7, np.nan, IMAGES), "y": LABELS}, "row .*, column .*: nan"),
        ({"X": np.full((40, 2), "a"), "y": LABELS}, "values of type"),
        ({"X": np.array([{}] * 40), "y": LABELS}, "pickle"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_is_left(
    arrays: dict[str, np.ndarray], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=reason):
        own.register(npz(**arrays), own.Options(), quiet)
    assert not list((tmp_path / "home/datasets").glob("*")) and not catalog.own_datasets()


def test_a_file_that_is_damaged_or_missing_is_one_line() -> None:
    whole = npz(X=IMAGES, y=LABELS).read_bytes()
    Path("bad.npz").write_bytes(b"PK nothing")
    Path("half.npz").write_bytes(whole[: len(whole) // 2])
    Path("changed.npz").write_bytes(whole.replace(IMAGES.tobytes(), IMAGES.tobytes()[::-1]))
    np.save("one.npy", IMAGES)
    Path("one.npy").rename("one.npz")
    for name in ("bad.npz", "none.npz", "half.npz", "changed.npz", "one.npz"):
        with pytest.raises(DataError, match=name):
            own.register(Path(name), own.Options(), quiet)


def test_a_file_of_labels_that_cannot_be_read_is_the_one_that_is_named() -> None:
    np.save("X.npy", IMAGES)
    npz(y=LABELS).rename("y.npz")
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000, 3), }"
    Path("huge.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + head.ljust(117) + b"\n")
    for name, reason in (
        ("y.npz", "several arrays"),
        ("huge.npy", "allocate"),
        ("no.npy", "No such"),
    ):
        with pytest.raises(DataError, match=f"{name}: .*{reason}"):
            own.register(Path("X.npy"), own.Options(labels=Path(name)), quiet)
