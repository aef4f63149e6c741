from collections.abc import Callable

import pytest

from suite.manifests.datasets import DatasetManifest
from suite.paths import MANIFESTS


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("mnist", "format: idx", "format: ids", "format: Input should be 'idx', 'cifar'"),
        ("imagenet", "classes:", "samples: {test: 1}\nclasses:", "image_folder has no samples"),
        ("mnist", "samples: {train: 60000, test: 10000}", "", "samples: format idx needs samples"),
        ("mnist", "test: 10000", "tets: 10000", "samples.tets.[key]: Input should be 'train' or"),
        ("mnist", "test_labels:", "test_1:", "files: test_images, test_labels, train_images"),
        ("mnist", "[1, 28, 28]", "[784]", "shape: format idx takes channels, height, width"),
        ("tabular", "[16]", "[4, 4, 1]", "shape: format generated takes 1 number (features)"),
        ("tabular", "mean: [0]", "mean: [0, 0]", "normalize: shape (16,) takes 1 mean and std"),
        ("cifar10", "0.4914, ", "", "normalize: shape (3, 32, 32) takes 3 mean and std"),
        ("cifar10", "test_1", "train_6", "files: test, train are needed, and nothing else"),
        ("cifar10", "archive:", "archives:", "unknown key 'archives'; nearest: 'archive'"),
        ("moby_dick", "classes:", "shape: [64]\nclasses:", "shape: format text has no shape"),
        ("moby_dick", "text:\n", "test_1:\n", "files: text are needed, and nothing else"),
        ("moby_dick", "tokens:", "samples:", "samples: format text has no samples"),
        ("imagenet", "[3, 224, 224]", "[3, 224, 192]", "shape: format image_folder takes 3"),
    ],
)
def test_a_dataset_must_have_exactly_the_fields_of_its_format(
    refused: Callable[..., str], name: str, old: str, new: str, message: str
) -> None:
    text = (MANIFESTS / "datasets" / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    assert message in refused(text.replace(old, new), DatasetManifest)
