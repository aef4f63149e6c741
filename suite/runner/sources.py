"""The worker and the locks of a run, copied into its folder for those who check the run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from suite.engines.base import Prepared
from suite.paths import tree_files, write_atomically

WORKER_FOLDER, LOCKS_FOLDER = "worker", "locks"


def write(folder: Path, worker: Path, prepared: Iterable[Prepared]) -> None:
    """Write `worker/` and `locks/` into a run's folder; raise OSError where that fails."""
    for source in tree_files(worker):
        copy = folder / WORKER_FOLDER / source.relative_to(worker)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    (folder / LOCKS_FOLDER).mkdir(exist_ok=True)
    for framework in prepared:
        if framework.lock is not None:
            write_atomically(lock_path(folder, framework.framework), framework.lock)


def lock_path(folder: Path, framework: str) -> Path:
    """The copy of a framework's lock in a run's folder."""
    return folder / LOCKS_FOLDER / f"{framework}.txt"
