import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from suite.engines.attempt import free_port
from suite.engines.venv.engine import VenvEngine
from suite.worker.launch import DIED, failure_order


def launch(folder: Path, **changes: Any) -> tuple[int, list[dict[str, Any]]]:
    """Start the worker on the trial in `folder` with two ranks; its exit code and its events."""
    path = folder / "trial.json"
    address = f"127.0.0.1:{free_port()}"
    values = json.loads(path.read_text()) | {
        "world_size": 2,
        "slices": 2,
        "cpus": [0, 0],
        "rendezvous": address,
        **changes,
    }
    path.write_text(json.dumps(values))
    done = subprocess.run(
        [sys.executable, "-m", "suite.worker", str(folder)],
        env={"PYTHONPATH": str(VenvEngine().staged()), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_rank_that_fails_ends_all_and_is_named(trial_folder: Path) -> None:
    """Both ranks fail; the first one counts."""
    code, events = launch(trial_folder, framework="nothing")
    assert code == 1
    failed = events[-1]
    assert (failed["event"], failed["error_class"]) == ("failed", "NotImplementedError")
    assert failed["message"].startswith(f"rank {failed['rank']}: ")
    written = (trial_folder / "results" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == events


def test_the_log_of_another_rank_is_in_its_folder(trial_folder: Path) -> None:
    launch(trial_folder, framework="nothing")
    assert (trial_folder / "results" / "rank1" / "stderr.log").exists()
    assert (trial_folder / "results" / "rank1" / "events.jsonl").exists()


def test_a_rank_that_died_failed_before_those_that_report_an_error() -> None:
    died = {"error_class": DIED, "monotonic_ns": 30}
    early, late = ({"error_class": "ValueError", "monotonic_ns": ns} for ns in (10, 20))
    assert sorted([{}, late, died, early], key=failure_order) == [died, early, late, {}]


def test_failures_on_machines_with_other_clocks_are_ordered_by_the_time_of_day() -> None:
    first = {"error_class": "ValueError", "monotonic_ns": 90, "unix_s": 1.0}
    second = {"error_class": "ValueError", "monotonic_ns": 10, "unix_s": 2.0}
    assert sorted([second, first], key=failure_order) == [first, second]
