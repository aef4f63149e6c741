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
from tests.conftest import ScriptEngine, Silent, script_worker
from tests.results.test_roofline import PEAK

WORKS = """
if trial["mode"] != "train":
    sys.exit(9)
started()
emit("built", build_s=0.1, parameters=431080, device={"threads": 2})
emit("compiled", first_step_s=0.5, synchronize_s=0.001, loss=2.3)
emit("warmup", step=2, steps=1, duration_s=0.5, samples_per_s=128.0, left_s=1)
emit("warm", blocks=1, steady=True)
emit("block", step=12, steps=10, duration_s=1.0, samples_per_s=640.0, left_s=1)
emit("block", step=22, steps=10, duration_s=2.0, samples_per_s=320.0, left_s=0)
emit("trained", steps=22, optimizer_steps=22)
emit("memory", host_rss_peak_bytes=1000)
emit("finished")
with (results / "telemetry.jsonl").open("w") as file:
    for position in range(9):
        at_ns = clock_ns - int((8 - position) * 5e8)
        sample = {"monotonic_ns": at_ns, "rss_bytes": 900 + position, "cpu_s": position * 0.5}
        file.write(json.dumps(sample) + "\\n")
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
    engine = LockedEngine(script_worker(place / "script", WORKS))
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
        )
        planfile.write(folder.path, planned)
        roofline.write(folder.path, PEAK)  # so that the run measures none
        runner.run(plan, inputs, folder)
    return folder.path


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
    path.write_text(json.dumps(values), encoding="utf-8")
    reseal(folder, name)


def reseal(folder: Path, name: str) -> None:
    """Correct the line of a file in SHA256SUMS."""
    sums = folder / "SHA256SUMS"
    lines = [
        f"{sha256(folder / name)}  {name}" if line.endswith(f"  {name}") else line
        for line in sums.read_text(encoding="utf-8").splitlines()
    ]
    sums.write_text("\n".join(lines) + "\n", encoding="utf-8")
