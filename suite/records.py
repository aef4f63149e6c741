"""Records: one JSON file for each run of a trial, written at once and whole."""

from __future__ import annotations

import gc
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from suite.closed import Closed
from suite.errors import ResultsError
from suite.manifest import Measure, Repeats
from suite.paths import write_atomically
from suite.telemetry import Telemetry
from suite.tracks import Conditions, means

# 7: parity.closing, blocks.loss, optimizer_steps; 6: blocks.monotonic_ns; 5: parity.steps;
# 4: conditions; 3: measure, repeats, times.total_s; 2: input, data_origin; 1: the first
SCHEMA_VERSION = 7
READABLE = (6, 7)

Status = Literal["ok", "failed", "timeout", "oom", "skipped"]


class Error(Closed):
    """Why a run did not end well; `hint` is the next step, where one is known."""

    error_class: str
    message: str
    hint: str | None = None


class Times(Closed):
    import_s: float | None = None
    build_s: float | None = None
    first_step_s: float | None = None
    synchronize_s: float | None = None  # of an idle device
    warmup_s: float | None = None
    measured_s: float | None = None
    total_s: float | None = None  # of the whole run, from its start to its verdict
    engine_s: float | None = None  # what the engine took beyond the worker's own life


class Block(Closed):
    """Steps timed together; those before the series was steady are marked."""

    warmup: bool
    monotonic_ns: int  # its end, by the clock that all workers of a machine share
    steps: int
    duration_s: float
    samples_per_s: float
    step: int | None = None  # how many steps were done at its end
    loss: float | None = None  # of its last step
    loss_wait_s: float | None = None  # after its clock stopped, until the loss was there

    @property
    def middle_s(self) -> float:
        """When half of it was over, on the clock of `monotonic_ns`."""
        return self.monotonic_ns / 1e9 - self.duration_s / 2


def series(blocks: Iterable[Block]) -> list[tuple[float, float]]:
    """Of each block after warm-up: when, in seconds, and at how many samples per second."""
    return [(each.middle_s, each.samples_per_s) for each in blocks if not each.warmup]


class Epoch(Closed):
    epoch: int
    duration_s: float
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    test_samples: int | None = None
    test_loss_error: float | None = None  # the standard error of test_loss


class Memory(Closed):
    host_rss_peak_bytes: int | None = None
    device_peak_bytes: int | None = None
    device_reserved_bytes: int | None = None


class Closing(Closed):
    """The closing proof of one run: its last steps beside the reference, from the same state."""

    proven: bool
    step: int  # number (from 0) of the first step
    steps: int = 0  # that were compared
    draws: int = 0  # of dropout masks that the reference took; 0: the model has no dropout
    worst: dict[str, float] = Field(
        default={}
    )  # quantity (loss, updates, ...) -> largest relative L2 error
    share: float | None = None  # the largest error as a share of its tolerance
    duration_s: float | None = None  # of the comparison, the worker's own steps not included
    reason: str | None = None  # why it is not proven


class Parity(Closed):
    """Whether this very work was proven equal to the reference: by a certificate made beforehand,
    and in the runs that end with one, by the closing proof.
    """

    proven: bool
    steps: int | None = None  # that were judged; less than asked for where training is chaos
    certificate: str | None = None
    closing: Closing | None = None
    reason: str | None = None

    def closed(self, closing: Closing) -> Parity:
        """With the closing proof of a run."""
        return self.model_copy(
            update={
                "proven": self.proven and closing.proven,
                "closing": closing,
                "reason": self.reason or closing.reason,
            }
        )


class Record(Closed):
    """Everything known of one run. What is not known is null, never 0."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    suite: str
    trial_id: str
    framework: str
    framework_version: str | None = None
    variant: str
    track: str
    conditions: Conditions  # what the track made of this framework
    model: str
    parameters: int | None = None
    flops_per_sample: int
    bytes_per_sample: float  # that must go to and from memory at least
    dataset: str
    data_origin: str  # where the dataset came from
    input: str  # where each batch lay before its step: disk, host or device
    mode: str
    batch_size: int
    precision: str
    optimizer: dict[str, Any]
    device: str
    repeat: int
    seed: int
    measure: Measure
    repeats: Repeats
    turns: int  # how many workers ran at once and took turns; 1: it was alone
    steady: bool | None = None  # whether warm-up ended because the series was steady
    status: Status
    error: Error | None = None
    engine: str
    image_id: str | None = None
    environment: dict[str, Any]
    times: Times = Times()
    blocks: tuple[Block, ...] = ()
    samples_per_s: float | None = None
    steps: int | None = None  # of training, that the run asked for
    optimizer_steps: int | None = None  # that were done, as the framework counted them
    epochs: tuple[Epoch, ...] = ()
    memory: Memory = Memory()
    telemetry: Telemetry | None = None
    parity: Parity
    log: str | None = None

    @property
    def means(self) -> str:
        return means(self.framework, self.variant, self.track)

    @property
    def device_told(self) -> dict[str, Any]:
        """The device as the worker read it back (docs/protocol.md); empty where it did not."""
        worker = self.environment.get("worker") or {}
        return worker.get("device") or {}

    @property
    def arithmetic(self) -> str:
        """In what it multiplied, as read back: its precision, or TF32 in float32's place."""
        tf32 = self.precision == "float32" and self.device_told.get("tf32")
        return "tf32" if tf32 else self.precision

    @property
    def name(self) -> str:
        """That of the run it is the record of (plan.Run.name)."""
        return f"{self.trial_id}-r{self.repeat}"


def parity_of(runs: Sequence[Record]) -> Parity:
    """A trial's: proven where each of its runs is, and one at least has a closing proof."""
    unproven = next((run.parity for run in runs if not run.parity.proven), None)
    closed = next((run.parity for run in runs if run.parity.closing), None)
    if found := unproven or closed:
        return found
    reason = "no run of it ended with the closing proof"
    return runs[0].parity.model_copy(update={"proven": False, "reason": reason})


class RunFolder:
    """results/<run-id>/: the records, and the workers' logs and events in logs/."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self.logs = path / "logs"

    def append(self, record: Record) -> None:
        """Write one record."""
        name = f"{record.name}.json"
        with self.writing(name):
            write_atomically(self.path / name, record.model_dump_json(indent=1) + "\n")

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Write a file of this run in the block; then `results/latest` points at its folder."""
        try:
            yield
            latest = self.path.parent / "latest"
            if not latest.is_symlink() or latest.readlink() != Path(self.run_id):
                link = self.path.parent / f".latest-{os.getpid()}"
                link.symlink_to(self.run_id)
                link.replace(latest)
        except OSError as error:
            raise ResultsError(
                f"{self.path / name} cannot be written: {error.strerror}",
                hint="free some space; the records written so far are whole",
            ) from None


@contextmanager
def run_folder(results: Path, suite: str) -> Iterator[RunFolder]:
    """A new run's folder in `results`; it goes again where not even a plan came to it.

    Raise ResultsError where it cannot be written.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        results.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(_fresh(results, f"{stamp}-{suite}"))
        folder.logs.mkdir()
    except OSError as error:
        raise ResultsError(
            f"{results} cannot be written: {error.strerror}",
            hint="give another folder with --results",
        ) from None
    try:
        yield folder
    finally:
        if not any(path.is_file() for path in folder.path.iterdir()):
            shutil.rmtree(folder.path, ignore_errors=True)


def _fresh(results: Path, name: str) -> Path:
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = results / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "too many runs in one second")


def read(path: Path) -> list[Record]:
    """All the records in one run's folder, by name; ResultsError where there are none."""
    found = so_far(path)
    if not found:
        raise ResultsError(f"{path} has no records", hint="dlsuite run quick")
    return found


def so_far(path: Path) -> list[Record]:
    """As `read`, and none where there are none."""
    # Python's collector would look through all records again and again, and free nothing: of ten
    # thousand records it takes more than half of the time.
    gc.disable()
    try:
        return [_read(file) for file in sorted(path.glob("*.json"))]
    finally:
        gc.freeze()
        gc.enable()


def _read(file: Path) -> Record:
    try:
        text = file.read_bytes()
        record = Record.model_validate_json(text)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    if record.schema_version not in READABLE:
        raise _of_other_version(file, record.schema_version)
    return record


def _unreadable(file: Path, error: Exception) -> ResultsError:
    """Why a file is no record; of one of another version that is the reason."""
    if isinstance(error, ValidationError):
        with suppress(ValueError):
            values = json.loads(file.read_text(encoding="utf-8"))
            version = values.get("schema_version") if isinstance(values, dict) else None
            if version not in READABLE:
                return _of_other_version(file, version)
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        reason = f"{where}: {first['msg']}" if where else first["msg"]
    else:
        reason = str(error)
    return ResultsError(f"{file}: not a record: {reason}", hint="move it out of the run's folder")


def _of_other_version(file: Path, version: Any) -> ResultsError:
    return ResultsError(
        f"{file}: record of schema version {version}, this is {SCHEMA_VERSION}",
        hint="read it with the dlsuite that wrote it",
    )
