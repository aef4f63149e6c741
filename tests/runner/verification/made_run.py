"""A finished run of scripted workers whose certificate comes from the cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from suite.datasets import library
from suite.datasets.inputs import Inputs
from suite.engines.base import Prepared
from suite.engines.options import EngineOptions
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.parity import certificates
from suite.parity.certificates import CERTIFICATE_VERSION, Certificate
from suite.parity.tolerances import Judged, rules_of, worst
from suite.paths import LOCKS, home, sha256
from suite.protocol.plan import Plan, Trial
from suite.results import roofline, store
from suite.results.certificate import FOLDER
from suite.runner import planfile
from suite.runner.planfile import Planned
from suite.runner.runner import Runner
from suite.runner.verification.machine import PIN
from tests.conftest import ScriptEngine, Silent, script_worker
from tests.results.test_roofline import PEAK

WORKS = """
if trial["mode"] != "train":
    sys.exit(9)
import numpy as np
# The durations are made up, so the clock goes on where that of the worker before it ended.
clock = pathlib.Path(__file__).parent.parent / "clock"
clock_ns = max(clock_ns, int(clock.read_text()) if clock.exists() else 0) + 10**9
version = VERSIONS[trial["framework"]]
emit("started", import_s=0.1, framework_version=version, versions={})
clock_ns += 2 * 10**8
emit("built", build_s=0.1, parameters=431080, device={"threads": 2})
clock_ns += 6 * 10**8
emit("compiled", first_step_s=0.5, synchronize_s=0.001, loss=2.3)
first = 4 if trial["epochs"] else 2  # an epoch has four steps
noise = int.from_bytes(os.urandom(3), "big") * 1e-12  # no two runs have the same durations
warmup = {"duration_s": 0.5, "samples_per_s": 128.0 * (first - 1)}
emit("warmup", step=first, steps=first - 1, left_s=1, **warmup)
if trial["epochs"]:
    predicted = np.arange(40, dtype=np.uint8) % 10
    labels = np.where(np.arange(40) < 10, 9 - predicted, predicted).astype(np.uint8)
    np.save(results / "predictions.npy", np.stack([predicted, labels]))
    accuracies = {"train_accuracy": 0.5, "test_accuracy": float(np.mean(predicted == labels))}
    losses = {"train_loss": 1.0, "test_loss": 1.0, "test_loss_error": 0.1}
    clock_ns -= 10**9  # which `emit` adds: the epoch's duration is that of its blocks
    emit("epoch", epoch=1, duration_s=1.0, test_samples=40, **accuracies, **losses)
emit("warm", blocks=1, steady=True)
def timed(step, seconds):
    global clock_ns
    clock_ns += 1000
    seconds += noise
    emit("block", step=step, steps=10, duration_s=seconds, samples_per_s=640 / seconds, left_s=1)
timed(first + 10, 1.0)
timed(first + 20, 2.0)
emit("trained", steps=first + 20, optimizer_steps=first + 20)
emit("memory", host_rss_peak_bytes=1000)
emit("finished")
with (results / "telemetry.jsonl").open("w") as file:
    for position in range(9):
        at_ns = clock_ns - int((8 - position) * 5e8)
        sample = {"monotonic_ns": at_ns, "rss_bytes": 900 + position, "cpu_s": position * 0.5}
        sample |= {"own_rss_bytes": 900 + position, "busy_s": position * 0.6, "steal_s": 0.0}
        file.write(json.dumps(sample) + "\\n")
clock.write_text(str(clock_ns))
"""
ERRORS = [{"logits": 1e-6, "loss": 2e-7, "gradients output.weight": 3e-6}] * 10


class LockedEngine(ScriptEngine):
    """Scripted workers in environments that have the locks of this version."""

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        lock = LOCKS / manifest.name / "cpu.txt"
        made = super().prepare(manifest, notify)
        return replace(made, lock_sha256=sha256(lock), lock=lock.read_text(encoding="utf-8"))


def finished(
    plan: Plan, dataset: DatasetManifest, raw: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder of a finished run, in `place`/results, with proven certificates."""
    library.prepare(dataset, notify=lambda text: None, source=raw)
    monkeypatch.setattr(catalog, "dataset", lambda name: dataset)
    (place / "work").mkdir()
    versions = {name: pinned(name) for name in ("pytorch", "jax", "mxnet")}
    engine = LockedEngine(script_worker(place / "script", f"VERSIONS = {versions}\n{WORKS}"))
    runner = Runner(engine, Silent(), place / "work")
    with store.run_folder(place / "results", plan.suite) as folder:
        inputs = runner.prepare(plan)
        for trial in plan.trials:
            prepared = runner.frameworks.of(trial)
            assert isinstance(prepared, Prepared)
            cache(engine, trial, prepared, inputs[trial.work])
        planned = Planned(
            session_id="a1",
            engine_options=EngineOptions(engine="venv"),
            worker_sha256=engine.worker_sha256,
            locks=runner.frameworks.locks,
            plan=plan,
            machine=planfile.machine_of(engine.host),
            inputs_sha256=planfile.inputs_digest(inputs),
        )
        planfile.write(folder.path, planned)
        roofline.write(folder.path, PEAK)  # so that the run measures none
        runner.run(plan, inputs, folder)
    for path in store.record_files(folder.path):  # the durations of the workers are made up too
        edit(folder.path, path.name, lambda values: values["times"].update(total_s=4.6))
    return folder.path


def pinned(framework: str) -> str:
    """The version of a framework in its lock."""
    package = {"pytorch": "torch"}.get(framework, framework)
    text = (LOCKS / framework / "cpu.txt").read_text(encoding="utf-8")
    return dict(PIN.findall(text))[package]


def cache(engine: ScriptEngine, trial: Trial, prepared: Prepared, inputs: Inputs) -> None:
    """Write the certificate of a trial into the cache, as if it had been proven before."""
    described = certificates.described_of(engine, trial, prepared, inputs, trial.proof_steps)
    judged = Judged(errors=ERRORS, raised=[], tolerance=rules_of(trial).tolerance)
    certificate = Certificate(
        version=CERTIFICATE_VERSION,
        key=certificates.key_of(described),
        framework=trial.framework,
        variant=trial.variant,
        track=trial.track,
        model=trial.workload.model,
        proven=True,
        reason=None,
        tolerance=judged.tolerance,
        worst=worst(ERRORS),
        share=judged.share,
        steps=trial.proof_steps,
        errors=ERRORS,
        raised=[],
        zeros=[],
        reference_error=1e-15,
        of=described,
    )
    path = home() / FOLDER / f"{certificate.key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(certificate)), encoding="utf-8")


def edit(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the values of a JSON file, and its line in SHA256SUMS."""
    path = folder / name
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    reseal(folder, name)


def reseal(folder: Path, name: str) -> None:
    """Correct the line of a file in SHA256SUMS."""
    sums = folder / "SHA256SUMS"
    lines = [
        f"{sha256(folder / name)}  {name}" if line.endswith(f"  {name}") else line
        for line in sums.read_text(encoding="utf-8").splitlines()
    ]
    sums.write_text("\n".join(lines) + "\n", encoding="utf-8")
