import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from suite.worker.data import DEVICE_BATCHES, Batches, Split, feed
from suite.worker.protocol import SCHEMA_VERSION, Trial, read_weights

ALL = np.arange(200)


def of_folder(trial: Trial, folder: Path) -> Trial:
    """The trial with the data in a folder."""
    return dataclasses.replace(trial, paths={**trial.paths, "data": str(folder)})


def test_images_are_normalized_alike_in_both_layouts(trial: Trial) -> None:
    images, labels = Split(trial, "train", "NCHW").take(ALL)
    raw = np.load(Path(trial.paths["data"]) / "train_inputs.npy")
    expected = (raw / 255 - 0.5) / 0.25
    assert images.dtype == np.float32 and labels.dtype == np.int32
    np.testing.assert_allclose(images, expected, rtol=1e-6, atol=1e-7)
    channels_last, _ = Split(trial, "train", "NHWC").take(ALL)
    assert channels_last.flags.c_contiguous
    assert np.array_equal(channels_last.transpose(0, 3, 1, 2), images)


def test_batches_from_memory_equal_those_from_disk(trial: Trial) -> None:
    from_disk, in_memory = Split(trial, "train", "NHWC"), Split(trial, "train", "NHWC")
    in_memory.into_memory()
    chosen = np.array([7, 3, 199])
    for one, other in zip(from_disk.take(chosen), in_memory.take(chosen), strict=True):
        assert np.array_equal(one, other)


def test_inputs_in_memory_take_no_temporary_copy_of_all_samples(
    trial: Trial, tmp_path: Path
) -> None:
    """It would be in the memory that a record reports."""
    images = np.zeros((2000, *trial.architecture["input_shape"]), np.uint8)
    np.save(tmp_path / "train_inputs.npy", images)
    np.save(tmp_path / "train_labels.npy", np.zeros(2000, np.int32))
    split = Split(of_folder(trial, tmp_path), "train", "NCHW")
    tracemalloc.start()
    try:
        split.into_memory()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    inputs_bytes = images.size * 4  # float32
    assert inputs_bytes <= peak_bytes < 1.2 * inputs_bytes


def test_rows_of_a_table_are_normalized(trial: Trial, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32)
    np.save(tmp_path / "train_inputs.npy", rows)
    np.save(tmp_path / "train_labels.npy", np.zeros(5, np.int32))
    scale = {"mean": [1.0], "std": [2.0]}
    table = dataclasses.replace(of_folder(trial, tmp_path), normalize=scale)
    found, _ = Split(table, "train", "NHWC").take(np.arange(5))
    np.testing.assert_allclose(found, (rows - 1) / 2, rtol=1e-6)


def test_text_is_cut_into_sequences_and_the_tokens_after_them(trial: Trial, tmp_path: Path) -> None:
    np.save(tmp_path / "train_tokens.npy", np.arange(10, dtype=np.uint8))
    text = dataclasses.replace(
        of_folder(trial, tmp_path),
        normalize={"mean": [], "std": []},
        architecture={**trial.architecture, "input_shape": [4]},
    )
    split = Split(text, "train", "NHWC")
    assert split.labels.shape == (2, 4)  # the last token has no label of its own
    inputs, labels = split.take(np.array([1, 0]))
    assert inputs.dtype == labels.dtype == np.int32
    assert inputs.tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]
    assert labels.tolist() == [[5, 6, 7, 8], [1, 2, 3, 4]]


def test_a_stack_of_text_has_sequences_of_labels(trial: Trial, tmp_path: Path) -> None:
    np.save(tmp_path / "train_tokens.npy", np.arange(17, dtype=np.uint8))
    np.save(tmp_path / "order.npy", np.array([[3, 1, 0, 2]], np.int32))
    text = dataclasses.replace(
        trial,
        batch_size=2,
        paths={**trial.paths, "data": str(tmp_path), "order": str(tmp_path / "order.npy")},
        normalize={"mean": [], "std": []},
        architecture={**trial.architecture, "input_shape": [4]},
    )
    batches = Batches(text, "NHWC")
    inputs, labels = batches.stack([0, 1])
    assert inputs.shape == labels.shape == (2, 2, 4)
    for number in (0, 1):
        assert np.array_equal(labels[number], batches.at(number)[1])


def test_an_epoch_has_every_sample_and_fills_its_last_batch_from_its_start(trial: Trial) -> None:
    batches = Batches(trial, "NCHW")
    order = np.load(trial.paths["order"])[0]
    images, _ = batches.split.take(ALL)
    assert batches.steps_per_epoch == 4  # 200 samples in batches of 64
    inputs = [batches.at(step)[0] for step in range(4)]
    assert {len(batch) for batch in inputs} == {64}
    expected = np.concatenate([order, order[:56]])
    assert np.array_equal(np.concatenate(inputs), images[expected])
    assert np.array_equal(batches.at(4)[0], inputs[0])


class Device:
    """A session that only counts the batches put on the device."""

    def __init__(self) -> None:
        self.put_count = 0

    def put(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.put_count += 1
        return inputs, labels


@pytest.mark.parametrize("source", ["disk", "host", "device"])
def test_disk_host_and_device_give_the_same_batches(trial: Trial, source: str) -> None:
    device, batches = Device(), Batches(trial, "NCHW")
    batch_of = feed(dataclasses.replace(trial, input=source), device, batches).single
    for step in range(4):
        for found, expected in zip(batch_of(step), Batches(trial, "NCHW").at(step), strict=True):
            assert np.array_equal(found, expected)
    assert device.put_count == 4 < DEVICE_BATCHES
    again = batch_of(4)  # the first batch of the next epoch, or the first one on the device
    assert np.array_equal(again[0], batch_of(0)[0])
    assert device.put_count == (4 if source == "device" else 6)


class Multistep(Device):
    steps_per_call = 3


@pytest.mark.parametrize("source", ["disk", "host", "device"])
def test_a_stack_has_the_batches_of_a_call_in_order(trial: Trial, source: str) -> None:
    trial = dataclasses.replace(trial, input=source, epochs=2)  # of four steps
    device, batches = Multistep(), Batches(trial, "NCHW")
    stack = feed(trial, device, batches).stack
    put_count = device.put_count
    for start in (0, 4, 8, 11):  # both epochs, and after them, also across the end of an epoch
        expected = [Batches(trial, "NCHW").at(step % 4) for step in range(start, start + 3)]
        for found, parts in zip(stack(start), zip(*expected, strict=True), strict=True):
            assert np.array_equal(found, np.stack(parts))
    assert device.put_count == put_count + (0 if source == "device" else 4)


def test_weights_are_read_as_they_were_written(trial: Trial) -> None:
    weights = read_weights(trial)
    assert weights["conv2.weight"].shape == (50, 20, 5, 5)
    flat = np.concatenate([values.ravel() for values in weights.values()])
    assert np.array_equal(flat, np.load(trial.paths["weights"]))
    np.save(trial.paths["weights"], np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="holds 5 values, the parameters need 431080"):
        read_weights(trial)


def test_another_schema_version_is_an_error(trial: Trial, tmp_path: Path) -> None:
    path = tmp_path / "trial" / "trial.json"
    current = f'"schema_version": {SCHEMA_VERSION}'
    path.write_text(path.read_text().replace(current, '"schema_version": 1'))
    with pytest.raises(ValueError, match=f"schema version 1, this worker needs {SCHEMA_VERSION}"):
        Trial.read(path.parent)


def test_mode_parity_omits_dropout(trial: Trial) -> None:
    inner = [{"kind": "dropout", "name": "d2"}, {"kind": "relu", "name": "r2"}]
    layers = [
        {"kind": "dropout", "name": "d1"},
        {"kind": "add", "name": "a", "branches": [inner, []]},
    ]
    changed = dataclasses.replace(trial, architecture={**trial.architecture, "layers": layers})
    assert [layer["name"] for layer in changed.leaves()] == ["d1", "d2", "r2"]
    parity = dataclasses.replace(changed, mode="parity")
    assert [layer["name"] for layer in parity.leaves()] == ["r2"]
