from pathlib import Path

import numpy as np
import pytest

from suite.worker.data import Batches, load_split
from suite.worker.protocol import Trial, flatten, read_weights


def test_images_are_normalised_alike_in_both_layouts(trial: Trial) -> None:
    images, labels = load_split(trial, "train", "NCHW")
    raw = np.load(Path(trial.paths["data"]) / "train_images.npy")
    expected = (raw / 255 - 0.1307) / 0.3081
    assert images.dtype == np.float32 and labels.dtype == np.int32
    np.testing.assert_allclose(images, expected, rtol=1e-6, atol=1e-7)
    channels_last, _ = load_split(trial, "train", "NHWC")
    assert channels_last.flags.c_contiguous
    assert np.array_equal(channels_last.transpose(0, 3, 1, 2), images)


def test_an_epoch_sees_every_sample_and_fills_its_last_batch_from_its_start(trial: Trial) -> None:
    batches = Batches(trial, "NCHW")
    order = np.load(trial.paths["order"])[0]
    images, _ = load_split(trial, "train", "NCHW")
    assert batches.steps_per_epoch == 4  # 200 samples in batches of 64
    seen = [batches.at(step)[0] for step in range(4)]
    assert {len(batch) for batch in seen} == {64}
    expected = np.concatenate([order, order[:56]])
    assert np.array_equal(np.concatenate(seen), images[expected])
    assert np.array_equal(batches.at(4)[0], seen[0])


def test_weights_come_back_as_they_were_written(trial: Trial) -> None:
    weights = read_weights(trial)
    assert weights["conv2.weight"].shape == (50, 20, 5, 5)
    assert np.array_equal(flatten(trial, weights), np.load(trial.paths["weights"]))
    np.save(trial.paths["weights"], np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="holds 5 values, the parameters need 431080"):
        read_weights(trial)


def test_another_schema_version_is_refused(trial: Trial, tmp_path: Path) -> None:
    path = tmp_path / "trial" / "trial.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(ValueError, match="schema version 2, this worker speaks 1"):
        Trial.read(path.parent)
