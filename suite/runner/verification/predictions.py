"""Computes the accuracy of a run again from the predictions that its worker kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.manifests.losses import OF_NUMBERS
from suite.results.record import Record
from suite.runner.verification import age
from suite.runner.verification.findings import Note, Outcome, finding
from suite.worker.loop import MAX_PREDICTIONS, PREDICTIONS

MOST_BYTES = 2 * 8 * MAX_PREDICTIONS + 4096
STANDARD_ERRORS = 5.0  # of the share in a part of all predictions


def check(where: str, record: Record, folder: Path) -> Iterator[Outcome]:
    """Compare the accuracy after the last epoch with the predictions (2, n) and their labels."""
    if not record.epochs:
        return
    last = record.epochs[-1]
    if record.workload.loss in OF_NUMBERS:  # numbers have no accuracy
        return
    if last.test_accuracy is None:
        yield finding(where, f"accuracy of epoch {last.epoch}", "a share", None)
        return
    path = folder / "logs" / f"{record.name}.{PREDICTIONS}"
    if not path.is_file():
        if age.is_recent(folder) and not age.is_compiled(folder, record.framework):
            yield finding(where, "predictions", path.relative_to(folder).as_posix(), "none")
        else:
            text = "the predictions are not kept, so the accuracy is not compared"
            yield Note(where=where, text=text)
        return
    name = path.relative_to(folder).as_posix()
    try:
        predicted, labels = _read(path)
    except (EOFError, OSError, ValueError) as error:
        yield finding(name, "content", "predicted classes and labels", error)
        return
    share = float(np.mean(predicted == labels))
    part = last.test_samples is not None and len(labels) < last.test_samples
    whole = last.test_samples == len(labels)
    standard_error = math.sqrt(max(share * (1 - share), 1 / len(labels)) / len(labels))
    # Of tokens, each sample has several predictions: whole where there is one for each sample.
    margin = 1e-9 if whole and not part else STANDARD_ERRORS * standard_error + 1 / len(labels)
    if abs(share - last.test_accuracy) > margin:
        what = f"accuracy of epoch {last.epoch}"
        yield finding(where, what, f"{share:.4f} of {name}", f"{last.test_accuracy:.4f}")


def _read(path: Path) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The predicted classes and the labels; ValueError where the file has something else."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    # A mapping reads no more than the file has, whatever its header says.
    pairs = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(pairs, np.ndarray) or pairs.dtype.kind not in "ui":
        raise ValueError("no array of whole numbers")
    if pairs.ndim != 2 or len(pairs) != 2 or not pairs.size:
        raise ValueError(f"an array of the shape {pairs.shape}")
    return pairs[0], pairs[1]
