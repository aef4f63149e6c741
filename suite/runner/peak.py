"""Measures the hardware peak of a device with the frameworks' own operations."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.engines.attempt import run_task
from suite.engines.base import Engine, Prepared
from suite.manifests import catalog
from suite.manifests.devices import KINDS, DeviceKind, Product
from suite.manifests.tracks import UNRESTRICTED
from suite.messages import Notify
from suite.paths import WORKER, digest, home
from suite.protocol import events
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Task
from suite.results.roofline import HardwarePeak, peak_of, read_file, write_file

# The facts of a machine on which its peak depends.
MACHINE = ("cpu", "cpu_features", "cpus", "cpu_quota", "gpus", "tpus")
DEADLINE_S = 300.0
CACHED_S = 24 * 3600.0  # how long a measured peak is reused


@dataclass(frozen=True)
class Cache:
    """The latest peak that was measured on this machine, with these locks and this worker."""

    engine: Engine
    device: str
    prepared: dict[str, Prepared]

    def read(self) -> HardwarePeak | None:
        """None where none was measured within a day, or it cannot be read."""
        try:
            age_s = time.time() - self._path.stat().st_mtime
            if not 0 <= age_s <= CACHED_S:  # negative: the clock was ahead when it was written
                return None
        except OSError:
            return None
        return read_file(self._path)

    def write(self, peak: HardwarePeak) -> None:
        """Keep the peak, unless nothing was measured; raise OSError where that fails."""
        if peak.best:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, peak)

    @property
    def _path(self) -> Path:
        host = self.engine.host
        parts = [
            self.engine.name,
            self.device,
            *(str(host.get(fact)) for fact in MACHINE),
            self.engine.worker_sha256,
            *(f"{name} {self.prepared[name].lock_sha256}" for name in providers(self.prepared)),
        ]
        return home() / "peaks" / f"{digest(parts)[:16]}.yaml"


def providers(prepared: dict[str, Prepared]) -> Iterator[str]:
    """The frameworks that measure the peak: those with a module `peak` in the worker."""
    folder = WORKER / "frameworks"
    return (name for name in sorted(prepared) if (folder / name / "peak.py").exists())


def measure(
    engine: Engine,
    trial: Trial,
    prepared: dict[str, Prepared],
    inputs: Inputs,
    *,
    work_dir: Path,
    notify: Notify,
    everything: bool = False,
) -> HardwarePeak:
    """Run each framework's worker in mode `peak`, one after the other; failed ones have no rates.

    Only the kind of `trial`'s devices matters; one rank measures it. `everything`: also in
    precisions that no workload uses.
    """
    device = trial.devices.kind
    kind = KINDS[device]
    precisions = kind.every_peak if everything else kind.peak
    by_framework: dict[str, dict[str, float]] = {}
    for framework in providers(prepared):
        notify(f"measuring the peak of {device} with {framework}")
        by_framework[framework] = rates(
            engine, trial, prepared[framework], inputs, device, precisions, work_dir=work_dir
        )
    return peak_of(device, by_framework)


def rates(
    engine: Engine,
    trial: Trial,
    prepared: Prepared,
    inputs: Inputs,
    device: DeviceKind,
    precisions: tuple[Product, ...],
    *,
    work_dir: Path,
) -> dict[str, float]:
    """The rates (work per second) of one framework's operations; none where its worker fails."""
    framework = prepared.framework
    folder = work_dir / f"peak-{framework}"
    peak_trial = replace(
        trial,
        framework=framework,
        variant=next(iter(catalog.framework(framework).variants)),
        runtime=UNRESTRICTED,
        device=device,
        cpu_parts=1,
    )
    attempt = run_task(
        engine,
        prepared,
        Task(trial=peak_trial, inputs=inputs, mode="peak", precisions=precisions),
        folder,
        # A container that is kept has the name of the first measurement.
        name=f"{work_dir.name}-peak-{framework}-{time.monotonic_ns()}",
        log=home() / "logs" / f"peak-{framework}.log",
        deadline_s=DEADLINE_S,
    )
    shutil.rmtree(folder, ignore_errors=True)
    found = events.of(attempt.events, "peak")
    return {each["operation"]: each["work_per_s"] for each in found}
