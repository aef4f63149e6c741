"""The worker conforms to the protocol in each framework; workers that violate it are found."""

import json
import re
import sys
from pathlib import Path

import pytest

from suite.engines.attempt import attempt
from suite.engines.base import WorkerRun
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.files import names
from suite.paths import WORKER
from suite.runner import conformance
from suite.worker import nvidia
from tests.conftest import each_framework

# Those that have an environment on a machine without a GPU.
FRAMEWORKS = [
    name
    for name in names("framework")
    if catalog.framework(name).locks and catalog.framework(name).has_environment
]


@pytest.mark.parametrize("framework", each_framework(FRAMEWORKS))
def test_the_worker_conforms(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = VenvEngine()
    manifest = catalog.framework(framework)
    prepared = engine.prepare(manifest, print)
    monkeypatch.setenv("PYTHONPATH", str(engine.staged()))
    command = [str(prepared.python), "-m", "suite.worker"]
    assert conformance.check(command, framework=framework) == []


@pytest.mark.parametrize("framework", each_framework(FRAMEWORKS))
def test_a_missing_gpu_is_a_failure_with_a_message(framework: str, trial_folder: Path) -> None:
    """The worker never computes on the CPU in place of a missing GPU."""
    if nvidia.find().gpus:
        pytest.skip("there is a GPU")
    engine = VenvEngine()
    values = json.loads((trial_folder / "trial.json").read_text())
    variant = next(iter(catalog.framework(framework).variants))
    values |= {"framework": framework, "variant": variant, "device": "cuda:0"}
    if not (WORKER / "frameworks" / framework / "session.py").exists():
        values |= {"mode": "infer", "scenario": "offline", "query_samples": 40}
    (trial_folder / "trial.json").write_text(json.dumps(values))
    prepared = engine.prepare(catalog.framework(framework), print)
    log = trial_folder / "log"
    worker = WorkerRun(prepared=prepared, folder=trial_folder, name="gpu", log=log, deadline_s=120)
    done = attempt(engine.run, worker, lambda event: None)
    assert done.status == "failed" and done.error is not None
    assert re.search("(?i)cuda|gpu", done.error.message)


def command(tmp_path: Path, text: str) -> list[str]:
    """The command that starts `text` as a worker."""
    path = tmp_path / "worker.py"
    path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path)]


def test_a_silent_worker_does_not_conform(tmp_path: Path) -> None:
    problems = conformance.check(command(tmp_path, ""))
    assert any("no event started" in problem for problem in problems)
    assert any("weights are truncated" in problem for problem in problems)


def test_a_worker_that_prints_more_than_its_events_does_not_conform(tmp_path: Path) -> None:
    text = """
import json, pathlib, sys
trial = json.loads((pathlib.Path(sys.argv[1]) / "trial.json").read_text())
line = json.dumps({"event": "finished", "monotonic_ns": 1})
(pathlib.Path(trial["paths"]["results"]) / "events.jsonl").write_text(line + "\\n")
print("loading ...")
print(line)
"""
    problems = conformance.check(command(tmp_path, text))
    assert any("standard output differs from events.jsonl" in problem for problem in problems)


def test_an_event_that_violates_its_schema_is_reported(tmp_path: Path) -> None:
    text = """
import json, pathlib, sys
trial = json.loads((pathlib.Path(sys.argv[1]) / "trial.json").read_text())
line = json.dumps({"event": "built", "monotonic_ns": 1, "build_s": "long", "parameters": 1,
                   "device": {}})
(pathlib.Path(trial["paths"]["results"]) / "events.jsonl").write_text(line + "\\n")
print(line)
"""
    problems = conformance.check(command(tmp_path, text))
    assert any("build_s: Input should be a valid number" in problem for problem in problems)
