"""A small image folder, prepared at once, and with kills at many moments."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite.datasets import library
from suite.datasets.formats import image_folder
from suite.datasets.formats.decode import photograph, pixels
from suite.datasets.formats.journal import Journal
from suite.errors import BusyError, DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.paths import REPOSITORY
from tests.conftest import rest_in_verify

SIZE = 28
BROKEN = ["train/ant/text.JPEG", "train/cat/short.jpg", "val/bee/empty.png"]

# Prepares a dataset like `dlsuite data prepare`, with chunks of two images. The process receives
# the signal NUMBER just before its COUNTth call of the function of MOMENT. SIGINT goes to its whole
# process group, as Ctrl-C in a terminal does.
KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from suite.datasets import library
from suite.datasets.formats import image_folder, journal, prepared
from tests.datasets.formats.test_image_folder import small

moment, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
image_folder.CHUNK = 2
module, name = {
    "recorded": (journal.Journal, "add"),
    "moved": (np, "memmap"),
    "labelled": (np, "save"),
    "described": (prepared, "write"),
    "renamed": (Path, "rename"),
}[moment]
original = getattr(module, name)

def interrupted(*arguments, **more):
    global count
    count -= 1
    if not count:
        os.killpg(0, number) if number == signal.SIGINT else os.kill(os.getpid(), number)
    return original(*arguments, **more)

setattr(module, name, interrupted)
library.prepare(small(), notify=print, source=Path(sys.argv[4]))
"""


def small() -> DatasetManifest:
    return catalog.dataset("imagenet").model_copy(update={"shape": (3, SIZE, SIZE)})


def silent(text: str) -> None: ...


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_folder, "CHUNK", 2)


def killed(
    images: Path, moment: str, count: int, by: signal.Signals = signal.SIGKILL
) -> subprocess.CompletedProcess[str]:
    """A preparation that is killed; it times out if a child process outlives it."""
    return subprocess.run(
        [sys.executable, "-c", KILLED, moment, str(count), str(by.value), str(images)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        preexec_fn=default_interrupts,
        check=False,
    )


def default_interrupts() -> None:
    """Restore the default for Ctrl-C, which a shell's background jobs and their children ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Three classes, 14 and 7 files, 3 of them broken."""
    root = tmp_path / "images"
    generator = np.random.default_rng(2)
    for split, count in (("train", 4), ("val", 2)):
        for name in ("bee", "ant", "cat"):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                shape = (*generator.integers(20, 90, 2), 3)
                image = Image.fromarray(generator.integers(0, 256, shape, np.uint8))
                image.save(folder / f"{number}.{('JPEG', 'jpg', 'PNG', 'jpeg')[number]}")
    cut = root / "train" / "cat" / "0.JPEG"
    (root / BROKEN[1]).write_bytes(cut.read_bytes()[:700])
    (root / BROKEN[0]).write_text("not an image")
    (root / BROKEN[2]).touch()
    (root / "train" / "cat" / "notes.txt").write_text("not an image by its name")
    return root


def assert_prepared(root: Path) -> None:
    """The prepared files hold each readable image of the folder once."""
    target, described = library.folder(small()), library.describe(small())
    source = library.read(small()).images
    assert source is not None and source.source_folder == str(root)
    assert source.classes == ("ant", "bee", "cat") and described.classes == 3
    assert sorted(source.unreadable) == BROKEN
    assert source.unreadable[BROKEN[0]] == "UnidentifiedImageError: cannot identify image file"
    assert "truncated" in source.unreadable[BROKEN[1]]
    for split, folder, count in (("train", "train", 12), ("test", "val", 6)):
        names = json.loads((target / f"{split}_files.json").read_text())
        inputs = np.load(target / f"{split}_inputs.npy", mmap_mode="r")
        labels = np.load(target / f"{split}_labels.npy")
        assert described.samples[split] == len(names) == count  # type: ignore[index]
        assert inputs.shape == (count, 3, SIZE, SIZE) and inputs.dtype == np.uint8
        assert labels.dtype == np.int32 and len(labels) == count
        found = {path.relative_to(root).as_posix() for path in root.glob(f"{folder}/*/*.*")}
        assert set(names) == {name for name in found if "notes" not in name} - set(BROKEN)
        for name, row, label in zip(names, inputs, labels, strict=True):
            assert np.array_equal(row, pixels(root / name, photograph(SIZE)))
            assert source.classes[label] == name.split("/")[1]
    assert [path.name for path in target.parent.iterdir()] == ["imagenet"]
    assert not (target / "journal.jsonl").exists()


def test_an_image_folder_is_prepared_and_its_broken_files_are_named(
    home: Path, images: Path
) -> None:
    target = library.prepare(small(), notify=silent, source=images)
    assert_prepared(images)
    assert library.ready(small(), silent) == target
    labels = np.load(target / "train_labels.npy")
    assert (np.diff(labels) < 0).any()  # the first samples are not all of one class


@pytest.mark.parametrize(
    ("moment", "count"),
    rest_in_verify(
        ("moved", 1),
        ("recorded", 1),
        ("recorded", 5),
        ("moved", 2),
        ("labelled", 1),
        ("labelled", 2),
        ("described", 1),
        ("renamed", 1),
    ),
)
def test_a_preparation_continues_after_a_kill(
    home: Path, images: Path, moment: str, count: int
) -> None:
    reply = killed(images, moment, count)
    assert reply.returncode == -signal.SIGKILL, reply.stderr
    assert not library.is_prepared(small())
    journal = home / "datasets" / ".imagenet-part" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    assert len(lines) == (count if moment == "recorded" else 1 + 7 + 4)
    with journal.open("a") as file:
        file.write('["train", 0, {')  # a line that the kill truncated
    messages: list[str] = []
    library.prepare(small(), notify=messages.append, source=images)
    done = sum(1 if chunk in (["test", 6],) else 2 for chunk in map(chunk_of, lines[1:]))
    assert (f"imagenet: {done} of 21 images are decoded" in messages) == (done < 21)
    assert_prepared(images)


def chunk_of(line: str) -> list[object]:
    return json.loads(line)[:2]  # type: ignore[no-any-return]


def test_an_interrupt_prints_one_traceback_and_none_of_the_child_processes(
    home: Path, images: Path
) -> None:
    reply = killed(images, "recorded", 2, signal.SIGINT)
    assert reply.stderr.count("Traceback") == reply.stderr.count("KeyboardInterrupt") == 1
    assert "multiprocessing" not in reply.stderr
    messages: list[str] = []
    library.prepare(small(), notify=messages.append, source=images)
    assert_prepared(images)


def test_an_interrupted_command_continues_when_repeated(home: Path, images: Path) -> None:
    command = [Path(sys.executable).with_name("dlsuite"), "data", "prepare", "imagenet"]
    with subprocess.Popen(
        [*command, "--from", images],
        env={**os.environ, "DLSUITE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=default_interrupts,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "0 of 21 images" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130, rest
    # Chunks that end after the interrupt may report progress before the error.
    assert "error: interrupted\nhint: the same command" in rest and "Trace" not in rest
    library.prepare(small(), notify=silent, source=images)
    assert_prepared(images)


def test_only_a_changed_folder_is_decoded_again(home: Path, images: Path) -> None:
    target = library.prepare(small(), notify=silent, source=images)
    before = (target / "train_inputs.npy").stat()
    messages: list[str] = []
    library.prepare(small(), notify=messages.append, source=images)
    assert "has not changed since" in messages[-1]
    assert (target / "train_inputs.npy").stat() == before
    (images / "train" / "ant" / "0.JPEG").touch()
    library.prepare(small(), notify=messages.append, source=images)
    assert "has not changed since" not in messages[-1]
    Image.new("RGB", (40, 40), "red").save(images / "val" / "ant" / "new.png")
    library.prepare(small(), notify=silent, source=images)
    assert library.describe(small()).samples == {"train": 12, "test": 7}
    names = json.loads((target / "test_files.json").read_text())
    red = np.load(target / "test_inputs.npy")[names.index("val/ant/new.png")]
    assert (red == np.array([255, 0, 0])[:, None, None]).all()
    repaired = images / BROKEN[0]
    Image.new("RGB", (40, 40)).save(repaired, "JPEG")
    library.prepare(small(), notify=silent, source=images)
    assert library.describe(small()).samples == {"train": 13, "test": 7}


def test_a_folder_that_changed_after_an_interruption_is_decoded_again(
    home: Path, images: Path
) -> None:
    killed(images, "recorded", 4)
    shape = (30, 30, 3)
    pixels = np.random.default_rng(4).integers(0, 256, shape, np.uint8)
    Image.fromarray(pixels).save(images / "train" / "ant" / "0.JPEG")
    library.prepare(small(), notify=silent, source=images)
    assert_prepared(images)


def test_a_start_detects_damage_by_size_and_time_and_verify_detects_all(
    home: Path, images: Path
) -> None:
    target = library.prepare(small(), notify=silent, source=images)
    inputs = target / "train_inputs.npy"
    times = (inputs.stat().st_atime_ns, inputs.stat().st_mtime_ns)
    content = bytearray(inputs.read_bytes())
    content[-1] ^= 1
    inputs.write_bytes(content)
    os.utime(inputs, ns=times)  # as after silent damage of a disk
    assert library.verify(small()) is None
    assert library.verify(small(), full=True) == "train_inputs.npy"
    inputs.touch()
    with pytest.raises(
        DataError, match=r"train_inputs.npy: missing, truncated or changed"
    ) as caught:
        library.ready(small(), silent)
    assert caught.value.hint == "dlsuite data prepare imagenet --from FOLDER"
    library.prepare(small(), notify=silent, source=images)
    assert_prepared(images)


def test_a_verified_copy_is_not_read_completely_at_each_start(home: Path, images: Path) -> None:
    target = library.prepare(small(), notify=silent, source=images)
    stamps = (target / "stamps.json").read_text()
    described = (target / "dataset.json").read_text()
    for path in target.glob("*.npy"):
        os.utime(path, (1, 1))  # as in a copy on another disk
    assert library.verify(small()) is None
    assert library.verify(small(), full=True) is None
    assert (target / "stamps.json").read_text() != stamps
    assert (target / "dataset.json").read_text() == described


def test_another_layout_of_the_folder_is_refused(home: Path, images: Path, tmp_path: Path) -> None:
    def refused(message: str, source: Path | None = images) -> None:
        with pytest.raises(DataError, match=message) as caught:
            library.prepare(small(), notify=silent, source=source)
        assert "CLASS/*" in caught.value.hint

    refused("its license forbids redistribution; use your own copy", None)
    refused("nowhere/train: No such file or directory", tmp_path / "nowhere")
    (images / "val" / "dog").mkdir()
    refused("val/dog is not in train")
    (images / "val" / "dog").rmdir()
    (images / "val").rename(images / "train" / "val")
    refused("images/val: No such file or directory; .*images: it has train/")
    (images / "train" / "val").rename(tmp_path / "away")
    (images / "val").mkdir()
    Image.new("RGB", (9, 9)).save(images / "val" / "flat.png")
    refused("images/val has no images in class folders")
    (images / "val" / "ant").mkdir()
    (images / "val" / "ant" / "text.png").write_text("no image")
    refused("no image of test can be read")
    assert not library.is_prepared(small())
    with pytest.raises(DataError, match="imagenet is not prepared"):
        library.describe(small())


def test_too_small_a_disk_is_refused_before_decoding(home: Path, images: Path) -> None:
    huge = small().model_copy(update={"shape": (3, 10**6, 10**6)})
    with pytest.raises(DataError, match=r"GiB free, imagenet needs 58,?\d+"):
        library.prepare(huge, notify=silent, source=images)


def test_a_second_simultaneous_preparation_is_refused(home: Path, images: Path) -> None:
    part = home / "datasets" / ".imagenet-part"
    part.mkdir(parents=True)
    with Journal(part / "journal.jsonl", "mine"), pytest.raises(BusyError, match="another dlsuite"):
        library.prepare(small(), notify=silent, source=images)


def test_the_command_names_unreadable_files(home: Path, images: Path) -> None:
    command = [Path(sys.executable).with_name("dlsuite"), "data"]
    environ = {**os.environ, "DLSUITE_HOME": str(home)}

    def dlsuite(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *map(str, arguments)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    reply = dlsuite("prepare", "imagenet", "--from", images)
    target = home / "datasets" / "imagenet"
    assert (reply.returncode, reply.stdout) == (0, f"{target}\n"), reply.stderr
    last = reply.stderr.splitlines()[-1]
    description = target / "dataset.json"
    assert last.startswith(
        f"3 of 21 files are unreadable and omitted: {', '.join(BROKEN)}; {description} lists all"
    )
    assert dlsuite("verify", "imagenet").returncode == 0
    with (target / "test_inputs.npy").open("r+b") as file:
        file.truncate(5000)
    reply = dlsuite("verify", "imagenet")
    assert reply.returncode == 4 and "test_inputs.npy: missing, truncated" in reply.stderr
