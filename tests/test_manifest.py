from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite import closed, manifest
from suite.closed import Closed
from suite.errors import ManifestError, UsageError
from suite.manifest import FrameworkManifest, Lack
from suite.paths import LOCKS, MANIFESTS

QUICK = (MANIFESTS / "suites" / "quick.yaml").read_text(encoding="utf-8")
MNIST = (MANIFESTS / "datasets" / "mnist.yaml").read_text(encoding="utf-8")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, type[Closed]], str]:
    """The message with which a text is refused, the file's folder left out."""

    def load(text: str, schema: type[Closed] = manifest.SuiteManifest) -> str:
        path = tmp_path / "bad.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ManifestError) as caught:
            closed.load(path, schema)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return load


@pytest.mark.parametrize("kind", ["framework", "dataset", "suite", "track"])
def test_every_manifest_of_the_repository_loads(kind: str) -> None:
    loader = {
        "framework": manifest.framework,
        "dataset": manifest.dataset,
        "suite": manifest.suite,
        "track": manifest.tracks().__getitem__,
    }[kind]
    names = manifest.names(kind)  # type: ignore[arg-type]
    assert names
    for name in names:
        assert loader(name).name == name


def test_every_lock_that_a_manifest_names_exists() -> None:
    for name in manifest.names("framework"):
        for lock in manifest.framework(name).locks:
            assert (LOCKS / name / lock).is_file()


def test_an_unknown_key_is_named_with_its_line_and_the_nearest(refused: Callable[..., str]) -> None:
    text = QUICK.replace("repeats:", "repeets:")
    line = [line[:8] for line in text.splitlines()].index("repeets:") + 1
    assert refused(text) == f"bad.yaml:{line}: unknown key 'repeets'; nearest: 'repeats'"


def test_an_unknown_key_deep_inside_is_compared_with_its_own_siblings(
    refused: Callable[..., str],
) -> None:
    message = refused(QUICK.replace("learning_rate", "learning_rates"))
    assert message.endswith("unknown key 'learning_rates'; nearest: 'learning_rate'")
    message = refused(MNIST.replace("package:", "packages:"), manifest.DatasetManifest)
    assert message.endswith("unknown key 'packages'; nearest: 'package'")


def test_values_that_make_no_sense_are_refused(refused: Callable[..., str]) -> None:
    assert "workloads.0.batch_size: Input should be greater than 0" in refused(
        QUICK.replace("batch_size: 64", "batch_size: 0")
    )
    assert "unknown model 'lenett'; nearest: 'lenet'" in refused(
        QUICK.replace("model: lenet", "model: lenett")
    )
    assert "repeats.at_most: 3 is less than at_least" in refused(
        QUICK.replace("at_least: 3", "at_least: 4")
    )
    assert "not YAML" in refused("name: [")
    assert "valid dictionary" in refused("")


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        manifest.suite(str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError, match="unknown suite 'quik'; nearest: 'quick'"):
        manifest.suite("quik")
    with pytest.raises(
        UsageError, match="unknown dataset 'zzz'; known: cifar10, imagenet, mnist, tabular"
    ):
        manifest.dataset("zzz")


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
        ("imagenet", "[3, 224, 224]", "[3, 224, 192]", "shape: format image_folder takes 3"),
    ],
)
def test_a_dataset_has_what_its_format_needs(
    refused: Callable[..., str], name: str, old: str, new: str, message: str
) -> None:
    text = (MANIFESTS / "datasets" / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    assert message in refused(text.replace(old, new), manifest.DatasetManifest)


def test_a_lack_holds_for_what_it_names_and_for_all_it_does_not() -> None:
    keras = manifest.framework("keras")

    def lacking(each: FrameworkManifest = keras, **changes: Any) -> str | None:
        usual = {"variant": "jax", "device": "cpu", "layers": {"dense"}, "input": "host"}
        return each.lacking(**{**usual, **changes})

    assert "CUDA" in str(lacking(variant="tensorflow", device="cuda:0"))
    assert lacking(variant="tensorflow") is None
    assert lacking(device="cuda:0") is None
    assert lacking(input="loader") is None
    assert "photographs" in str(lacking(manifest.framework("jax"), variant="jit", input="loader"))
    changed = keras.model_copy(update={"lacks": (Lack(layer="lstm", reason="none"),)})
    assert lacking(changed, layers={"lstm", "dense"}) == "none"
    assert lacking(changed) is None
