"""Starts the ranks of a trial on this node, and ends all of them when one fails.

`python -m suite.worker.launch FOLDER` does so on each node of a Slurm step.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import ranks
from .endings import ended
from .protocol import Trial

LOG = "stderr.log"
LOG_LINES = 20  # of a failed rank, that end in the trial's log
TERM_GRACE_S = 3.0
DIED = "RankDied"  # the class of the error of a rank that reported none
NODE = "SLURM_NODEID"
DEVICES = "CUDA_VISIBLE_DEVICES"


def run(trial: Trial, folder: Path) -> int:
    """Run this node's ranks; return 0 where all ended well.

    The standard output, and the events in the trial's folder, are those of rank 0. Where a rank
    fails, a last event `failed` names it.
    """
    first = trial.node * trial.ranks_per_node
    processes = {
        first + local: _start(trial, folder, first + local, local)
        for local in range(trial.ranks_per_node)
    }
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    for rank, process in processes.items():
        threading.Thread(target=_report, args=(rank, process, ended), daemon=True).start()
    for _ in processes:
        if processes[ended.get()].returncode:
            time.sleep(ranks.RETRY_S)  # for ranks that end at the same time
            failed = [rank for rank, each in processes.items() if each.poll()]
            codes = {rank: processes[rank].returncode for rank in failed}
            _end(processes.values())
            write_failure(Path(trial.paths["results"]), codes)
            return 1
    return 0


def _start(trial: Trial, folder: Path, rank: int, local: int) -> subprocess.Popen[bytes]:
    """Start a rank. On a GPU it sees one device; the log of a rank above 0 is in its folder."""
    environment = {**os.environ, ranks.RANK: str(rank), ranks.SIZE: str(trial.world_size)}
    if trial.device != "cpu":
        visible = os.environ.get(DEVICES)
        environment[DEVICES] = visible.split(",")[local] if visible else str(local)
    command = [sys.executable, "-m", "suite.worker", str(folder)]
    if rank == 0:
        return subprocess.Popen(command, env=environment)
    results = ranks.folder(Path(trial.paths["results"]), rank)
    results.mkdir(exist_ok=True)
    with (results / LOG).open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)


def _report(rank: int, process: subprocess.Popen[bytes], ended: queue.SimpleQueue[int]) -> None:
    process.wait()
    ended.put(rank)


def _end(processes: Any) -> None:
    """End the processes: SIGTERM, then SIGKILL."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + TERM_GRACE_S
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write_failure(results: Path, codes: Mapping[int, int]) -> None:
    """Write the event `failed` of the rank that failed first, and the end of its log.

    `codes` has the exit code of each rank that failed.
    """
    failures = {rank: _failure(results, rank) or _death(code) for rank, code in codes.items()}
    rank = min(failures, key=lambda each: failure_order(failures[each]))
    event = failures[rank]
    message = f"rank {rank}: {event['message']}"
    line = json.dumps({**event, "event": "failed", "message": message, "rank": rank}) + "\n"
    with (results / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)
    sys.stdout.write(line)
    sys.stdout.flush()
    log = ranks.folder(results, rank) / LOG
    if log.exists():
        text = log.read_text(encoding="utf-8", errors="replace")
        for each in text.splitlines()[-LOG_LINES:]:
            print(f"[rank {rank}] {each}", file=sys.stderr)


def failure_order(event: Mapping[str, Any]) -> tuple[bool, bool, float, int]:
    """The key by which the event `failed` of the rank that failed first is the smallest.

    The other ranks fail because it is missing. One that died, without an event of its own, comes
    before those that reported an error; of these the earliest is first. No event is last. The time
    of day comes first, because each machine has a monotonic clock of its own.
    """
    died = event.get("error_class") == DIED
    return not event, not died, event.get("unix_s") or 0.0, event.get("monotonic_ns", 0)


def _death(code: int) -> dict[str, Any]:
    """The failure of a rank that reported none."""
    return {
        "error_class": DIED,
        "message": f"the process {ended(code)}",
        "monotonic_ns": time.monotonic_ns(),
        "unix_s": time.time(),
    }


def _failure(results: Path, rank: int) -> dict[str, Any]:
    """The event `failed` of a rank; empty where it wrote none."""
    return failure(ranks.folder(results, rank) / "events.jsonl")


def failure(path: Path) -> dict[str, Any]:
    """The last event `failed` in a file of events; empty where there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if '"failed"' in line]
    except (OSError, ValueError):
        return {}
    return next((event for event in reversed(events) if event.get("event") == "failed"), {})


if __name__ == "__main__":
    place = Path(sys.argv[1])
    task = Trial.read(place)
    raise SystemExit(run(replace(task, node=int(os.environ.get(NODE, task.node))), place))
