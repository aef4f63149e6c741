"""Text as tokens, and as the sequences that a model takes."""

import json
from pathlib import Path

import numpy as np

from suite.datasets import library, obtain
from suite.datasets.formats import text
from suite.manifests import catalog
from suite.manifests.workloads import AdamW, Workload

WORKLOAD = Workload(
    model="gpt_tiny",
    dataset="moby_dick",
    batch_size=8,
    optimizer=AdamW(name="adamw", learning_rate=0.001),
)


def test_the_first_tokens_are_for_training_and_the_rest_for_tests(tmp_path: Path) -> None:
    manifest = catalog.dataset("moby_dick").model_copy(update={"tokens": {"train": 4, "test": 2}})
    (tmp_path / "data.txt").write_bytes(b"Ishmae")
    arrays = dict(text.arrays(manifest, tmp_path))
    assert bytes(arrays["train_tokens"]) == b"Ishm" and bytes(arrays["test_tokens"]) == b"ae"


def test_sequences_are_as_long_as_the_models_input() -> None:
    fitted = library.of(WORKLOAD)
    assert fitted.shape == (64,) and fitted.holds_tokens
    assert fitted.samples == {"train": 1_084_496 // 64, "test": 120_499 // 64}


def test_a_model_of_images_does_not_take_text() -> None:
    wrong = WORKLOAD.model_copy(update={"model": "lenet"})
    assert library.of(wrong).shape == ()


def test_synthetic_text_has_eight_batches_of_tokens(tmp_path: Path) -> None:
    synthetic = WORKLOAD.model_copy(update={"dataset": "synthetic"})
    inputs = obtain.obtain(synthetic, seed=1, folder=tmp_path, notify=print)
    tokens = np.load(inputs.data / "train_tokens.npy")
    assert tokens.dtype == np.uint8 and tokens.shape == (8 * 8 * 64 + 1,)
    assert set(json.loads((inputs.data / "dataset.json").read_text())["files"]) == {
        "train_tokens.npy",
        "test_tokens.npy",
    }
