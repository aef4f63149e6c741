"""A folder of images of the user becomes a data set, in the size of the images or a named one."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite.datasets import library, own
from suite.datasets.own_images import Sizes
from suite.errors import DataError, UsageError
from suite.manifests import catalog


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def quiet(text: str) -> None:
    pass


def put(name: str, shade: int, size: tuple[int, int] = (12, 10), mode: str = "RGB") -> None:
    path = Path("pictures", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, 2 * shade, 0)).convert(mode).save(path)


def two_classes(folder: str = "", count: int = 10, mode: str = "RGB") -> None:
    for number in range(count):
        put(f"{folder}ant/{number}.png", number, mode=mode)
        put(f"{folder}bee/{number}.png", 100 + number, mode=mode)


def arrays(name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    folder = library.folder(catalog.dataset(name))
    return np.load(folder / f"{split}_inputs.npy"), np.load(folder / f"{split}_labels.npy")


def test_pictures_are_taken_as_they_are_and_a_share_of_each_class_is_held_out() -> None:
    two_classes()
    name = own.register(Path("pictures"), own.Options(split=0.2), quiet)
    manifest = catalog.dataset(name)
    assert manifest.shape == (3, 10, 12) and manifest.samples == {"train": 16, "test": 4}
    assert library.ready(manifest, quiet) == library.folder(manifest)
    seen = []
    for split, of_class in (("train", 8), ("test", 2)):
        inputs, labels = arrays(name, split)
        assert np.bincount(labels).tolist() == [of_class, of_class]
        red, green = inputs[:, 0, 0, 0], inputs[:, 1, 0, 0]
        assert ((red >= 100) == labels).all() and (green == 2 * red).all()
        seen += red.tolist()
    assert sorted(seen) == [*range(10), *range(100, 110)]


def test_a_folder_for_the_test_is_used_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    two_classes("train/")
    two_classes("valid/", count=3)
    two_classes("test/", count=2)
    name = own.register(Path("pictures"), own.Options(), print)
    assert catalog.dataset(name).samples == {"train": 20, "test": 6}
    assert "not used: test" in capsys.readouterr().out


def test_grey_pictures_have_one_channel_unless_the_user_says_otherwise() -> None:
    two_classes(mode="L")
    name = own.register(Path("pictures"), own.Options(), quiet)
    assert catalog.dataset(name).shape == (1, 10, 12)
    rgb = own.Options(sizes=Sizes(color_mode="rgb"))
    other = own.register(Path("pictures"), rgb, quiet)
    assert catalog.dataset(other).shape == (3, 10, 12) and other != name


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        (Sizes(resize=8, crop=6), (3, 6, 6)),
        (Sizes(resize=8), (3, 8, 8)),
        (Sizes(crop=6), (3, 6, 6)),
    ],
)
def test_pictures_of_several_sizes_are_scaled_and_cropped(
    sizes: Sizes, shape: tuple[int, ...]
) -> None:
    two_classes()
    put("bee/large.png", 7, size=(300, 20))
    with pytest.raises(DataError, match=r"2 sizes: 20 of 12 x 10 .*, 1 of 300 x 20 \(bee/large"):
        own.register(Path("pictures"), own.Options(), quiet)
    name = own.register(Path("pictures"), own.Options(sizes=sizes), quiet)
    assert catalog.dataset(name).shape == shape


def test_a_picture_that_is_smaller_than_the_crop_is_unreadable_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    two_classes()
    put("bee/small.png", 7, size=(4, 4))
    own.register(Path("pictures"), own.Options(sizes=Sizes(crop=6)), print)
    shown = capsys.readouterr().out
    assert "files are unreadable and omitted: bee/small.png; " in shown
    assert "of the first ValueError: 4 x 4 pixels, smaller than 6 x 6" in shown


def test_a_changed_folder_is_another_data_set_and_an_equal_one_is_read_once() -> None:
    two_classes()
    name = own.register(Path("pictures"), own.Options(), quiet)
    stamp = (library.folder(catalog.dataset(name)) / "train_inputs.npy").stat()
    assert own.register(Path("pictures"), own.Options(), quiet) == name
    assert (library.folder(catalog.dataset(name)) / "train_inputs.npy").stat() == stamp
    put("ant/new.png", 11)
    assert own.register(Path("pictures"), own.Options(), quiet) != name


def test_what_is_no_folder_of_classes_is_refused() -> None:
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        own.register(Path("nowhere"), own.Options(), quiet)
    put("flat.png", 1)
    with pytest.raises(DataError, match="pictures has no images in class folders"):
        own.register(Path("pictures"), own.Options(), quiet)
    put("ant/1.png", 1)
    with pytest.raises(DataError, match="pictures has one class, ant"):
        own.register(Path("pictures"), own.Options(), quiet)
    put("bee/1.png", 1)
    with pytest.raises(DataError, match="2 images in 2 classes are too few for a split"):
        own.register(Path("pictures"), own.Options(), quiet)
    two_classes()
    with pytest.raises(UsageError, match="--crop 9 is larger than --resize 8"):
        own.register(Path("pictures"), own.Options(sizes=Sizes(resize=8, crop=9)), quiet)
    assert not catalog.own_datasets()


def test_a_split_beside_class_folders_is_no_class() -> None:
    two_classes()
    put("Test/1.png", 1)
    with pytest.raises(DataError, match=r"pictures has Test/ beside ant/, bee/: a split or a cl"):
        own.register(Path("pictures"), own.Options(), quiet)
    assert not catalog.own_datasets()


def test_a_known_name_is_no_folder() -> None:
    Path("mnist").mkdir()
    assert not own.is_path("mnist") and own.is_path("./mnist") and own.is_path("table.csv")
