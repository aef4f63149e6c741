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
        ({"X": IMAGES[0], "y": LABELS}, "is neither"),
        ({"X": IMAGES, "y": LABELS[:9]}, "40 samples and labels of shape"),
        ({"X": IMAGES, "y": LABELS - 1}, "label -1 in row 1"),
        ({"X": IMAGES, "y": LABELS * 0.5}, "is no class number"),
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
    Path("bad.npz").write_bytes(b"PK nothing")
    for name in ("bad.npz", "none.npz"):
        with pytest.raises(DataError, match=name):
            own.register(Path(name), own.Options(), quiet)
