"""Each framework's own loader, on photographs whose parts are recognizable."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite.datasets import obtain
from suite.datasets.formats import image_folder, prepared
from suite.engines.attempt import run_task
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.workloads import Measure, Sgd, SuiteWorkload
from suite.protocol import events
from suite.protocol.expansion import expand
from suite.protocol.trial_file import Task
from suite.worker import data
from suite.worker.protocol import Trial
from tests.conftest import each_framework
from tests.worker.conftest import in_environment

LOADERS = [
    name
    for name, manifest in catalog.frameworks().items()
    if not any(entry.input == "loader" for entry in manifest.unsupported)
]
SIZE, BATCH = 32, 4
COLOURS = [(0, 0, 0), (255, 255, 255), (250, 120, 5), (10, 200, 90), (0, 30, 255)]
SLOPES = 2 * BATCH - len(COLOURS)
EPOCHS = 6
QUALITY = {"quality": 100, "subsampling": 0}  # of a JPEG
# Saves the batches that training would use, converted to (N, channels, height, width).
READ = """
import sys
from pathlib import Path
import numpy as np
from suite.worker.data import feed
from suite.worker.frameworks import load
from suite.worker.protocol import Trial

trial = Trial.read(Path(sys.argv[1]))
framework = load(trial)

class Arrays:
    def put(self, inputs, labels):
        return [np.asarray(each if isinstance(each, np.ndarray) else getattr(
            each, "asnumpy", getattr(each, "numpy", None))()) for each in (inputs, labels)]

batch_of = feed(trial, Arrays(), None).single
batches = [batch_of(step) for step in range(int(sys.argv[3]))]
inputs, labels = (np.stack(each) for each in zip(*batches))
if framework.LAYOUT == "NHWC":
    inputs = inputs.transpose(0, 1, 4, 2, 3)
np.savez(sys.argv[2], inputs=inputs, labels=labels)
"""


@dataclass(frozen=True)
class Read:
    inputs: np.ndarray  # (batches, N, channels, height, width)
    labels: np.ndarray


def photographs(trial_folder: Path, root: Path, images: list[Image.Image]) -> None:
    """Change the trial to these photographs. Every second file is a PNG with the suffix .JPEG."""
    values = json.loads((trial_folder / "trial.json").read_text())
    prepared_folder = Path(values["paths"]["data"])
    (root / "train").mkdir(parents=True)
    names = [f"train/{number}.JPEG" for number in range(len(images))]
    for number, (name, image) in enumerate(zip(names, images, strict=True)):
        image.save(root / name, "PNG" if number % 2 else "JPEG", **({} if number % 2 else QUALITY))
    (prepared_folder / "train_files.json").write_text(json.dumps(names))
    np.save(prepared_folder / "train_labels.npy", np.arange(len(images), dtype=np.int32))
    values["paths"]["images"] = str(root)
    values.update(input="loader", batch_size=BATCH)
    values["normalize"] = {"mean": [0.5, 0.4, 0.3], "std": [0.25, 0.2, 0.5]}
    values["architecture"]["input_shape"] = [3, SIZE, SIZE]
    (trial_folder / "trial.json").write_text(json.dumps(values))


def read(framework: str, trial_folder: Path) -> Read:
    """The batches of a framework's loader."""
    path = trial_folder / "trial.json"
    values = json.loads(path.read_text())
    variant = next(iter(catalog.framework(framework).variants))
    path.write_text(json.dumps({**values, "framework": framework, "variant": variant}))
    target = trial_folder / "read.npz"
    arguments = str(trial_folder), str(target), str(2 * EPOCHS)
    in_environment(framework, READ, *arguments, folder=trial_folder)
    with np.load(target) as found:
        return Read(found["inputs"], found["labels"])


def slopes() -> Image.Image:
    """An image whose red increases to the right, and whose green increases to the bottom."""
    row, column = np.mgrid[0:200, 0:200]
    pixels = np.stack([column, row, np.zeros_like(row)], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8))


CACHE: dict[str, Read] = {}


@pytest.fixture(params=each_framework(LOADERS))
def found(request: pytest.FixtureRequest, trial_folder: Path, tmp_path: Path) -> Read:
    """Six epochs of a framework's loader, read once for all tests."""
    framework = request.param
    if framework not in CACHE:
        plain = [Image.new("RGB", (90, 60), colour) for colour in COLOURS]
        photographs(trial_folder, tmp_path / "photographs", plain + [slopes()] * SLOPES)
        CACHE[framework] = read(framework, trial_folder)
    return CACHE[framework]


def test_photographs_are_normalized_and_have_their_labels(found: Read) -> None:
    assert found.inputs.shape == (EPOCHS * 2, BATCH, 3, SIZE, SIZE)
    assert found.inputs.dtype == np.float32
    plain = found.labels < len(COLOURS)
    for image, label in zip(found.inputs[plain], found.labels[plain], strict=True):
        expected = (np.array(COLOURS[label]) / 255 - [0.5, 0.4, 0.3]) / [0.25, 0.2, 0.5]
        np.testing.assert_allclose(image.mean(axis=(1, 2)), expected, atol=0.03)
        assert np.ptp(image, axis=(1, 2)).max() < 0.05


def test_each_epoch_has_all_photographs_in_another_order(found: Read) -> None:
    counts = np.bincount(found.labels.ravel(), minlength=2 * BATCH)
    assert len(counts) == 2 * BATCH
    assert np.abs(counts - EPOCHS).max() <= 1  # tf.data may begin an epoch early
    assert len({tuple(epoch) for epoch in found.labels.reshape(EPOCHS, -1)}) == EPOCHS


def test_random_parts_are_cropped_and_mirrored(found: Read) -> None:
    images = found.inputs[found.labels >= len(COLOURS)]
    across = images[:, 0, :, -1].mean(axis=1) - images[:, 0, :, 0].mean(axis=1)
    down = images[:, 1, -1].mean(axis=1) - images[:, 1, 0].mean(axis=1)
    assert {-1, 1} == set(np.sign(across).astype(int))  # some are mirrored, others are not
    assert (down > 0).all()  # none is mirrored vertically
    widths, heights = np.abs(across) / 4 * 255, down / 5 * 255  # of the parts, in pixels of 200
    shares = widths * heights / 200**2
    assert shares.min() > 0.04 and 0.3 < shares.max() <= 1.01 and np.ptp(shares) > 0.2
    assert np.ptp(widths / heights) > 0.1 and (widths / heights).max() < 1.6


def test_fewer_photographs_than_a_batch_are_an_error(trial_folder: Path, tmp_path: Path) -> None:
    photographs(trial_folder, tmp_path / "photographs", [Image.new("RGB", (50, 50))] * 3)
    with pytest.raises(ValueError, match="3 photographs are fewer than a batch of 4"):
        data.photographs(Trial.read(trial_folder))


@pytest.mark.verify
@pytest.mark.parametrize("name", ["pytorch", "tensorflow", "mxnet", "keras:jax", "keras:pytorch"])
def test_a_trial_trains_on_photographs(name: str, tmp_path: Path) -> None:
    """A complete run through the engine, from a folder of images to timed blocks."""
    root, folder = tmp_path / "photographs", tmp_path / "prepared"
    for split in ("train", "val"):
        for class_name in ("ant", "bee"):
            (root / split / class_name).mkdir(parents=True)
            for number in range(BATCH):
                image = Image.new("RGB", (60, 50), COLOURS[number])
                image.save(root / split / class_name / f"{number}.jpg")
    dataset = catalog.dataset("imagenet").model_copy(update={"shape": (3, SIZE, SIZE)})
    image_folder.prepare(dataset, folder, root, lambda text: None)
    images = prepared.read(folder).images
    dataset = dataset.model_copy(update={"samples": images.samples, "classes": 2})
    workload = SuiteWorkload(
        model="vit_tiny_cifar10",
        dataset="imagenet",
        batch_size=BATCH,
        input="loader",
        optimizer=Sgd(name="sgd", learning_rate=0.001),
        epochs=0,
    )
    suite = catalog.suite("quick").model_copy(update={"workloads": (workload,)})
    trial = expand(suite, catalog.frameworks(), catalog.tracks(), only=[name]).trials[0]
    task = Task(
        trial=trial,
        inputs=obtain.make(workload, dataset, data=folder, seed=1, folder=tmp_path / "inputs"),
        mode="train",
        measure=Measure(block_s=0.05, max_warmup_blocks=1, min_measure_s=0.1, max_measure_s=0.2),
    )
    engine = VenvEngine()
    attempt = run_task(
        engine,
        engine.prepare(catalog.framework(trial.framework), lambda text: None),
        task,
        tmp_path / trial.trial_id,
        name="loader",
        log=tmp_path / "log",
        deadline_s=120,
    )
    assert (attempt.status, attempt.error) == ("ok", None)
    assert events.of(attempt.events, "block")
