"""Where the float64 reference is computed: on the CPU, or on a GPU that is faster in float64.

A GPU of a data centre multiplies in float64 at tens of TFLOP/s, a card for desktops at less than
the cores beside it. So both are measured. Before a GPU is used, the training steps of a small model
on it are compared with those on the CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from suite.datasets import obtain
from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.manifests.devices import DeviceKind, Product, ReferenceChoice
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.parity.errors import compare, largest
from suite.parity.keys import reference_of
from suite.parity.prover import Prover
from suite.parity.reference import TOLERANCE
from suite.parity.tensors import ProofFailed
from suite.parity.workers import LOWERINGS
from suite.protocol.plan import Trial
from suite.results.roofline import peak_of
from suite.runner import peak

PRECISION: Product = "float64"
OPERATION = f"matmul_{PRECISION}"
# The small model, with convolutions, pools and dense layers.
SMALL = Workload.model_validate(
    {
        "model": "lenet",
        "dataset": "synthetic",
        "batch_size": 8,
        "optimizer": {"name": "momentum", "learning_rate": 0.01},
    }
)
STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Decides for the trials of one plan, of which `trial` is the first."""

    engine: Engine
    prepared: Mapping[str, Prepared]  # with the frameworks of the reference
    trial: Trial
    inputs: Inputs
    work_dir: Path
    notify: Notify

    def place(self, choice: ReferenceChoice) -> DeviceKind:
        """The kind of device for the reference, and a message that says so.

        Without GPUs, and where a GPU does not compute the same as the CPU, it is the CPU.
        """
        kind = self.trial.devices.kind
        if kind != "cuda" or choice == "cpu":  # a TPU has no float64
            return "cpu"
        if choice == "auto" and not self._is_faster(kind):
            return "cpu"
        if problem := self._difference(kind):
            self.notify(f"warning: the float64 reference is computed on the CPU: {problem}")
            return "cpu"
        return kind

    def _is_faster(self, kind: DeviceKind) -> bool:
        """Whether the device multiplies faster in float64 than the CPU."""
        on_device, on_cpu = self.rate(kind), self.rate("cpu")
        if on_device is None or on_cpu is None:
            return False
        faster = on_device > on_cpu
        where = "GPU" if faster else "CPU"
        self.notify(
            f"the float64 reference is computed on the {where}: products in float64 reach"
            f" {on_device / 1e12:.2f} TFLOP/s on the GPU, {on_cpu / 1e12:.2f} on the CPU"
        )
        return faster

    def rate(self, kind: DeviceKind) -> float | None:
        """The rate of products in float64, in FLOP/s, measured within a day; None: unknown."""
        cache = peak.Cache(self.engine, f"{kind} {PRECISION}", dict(self.prepared))
        found = cache.read()
        if found is None:
            framework, _ = LOWERINGS[0]
            self.notify(f"measuring products in float64 on {kind} with {framework}")
            rates = peak.rates(
                self.engine,
                self.trial,
                self.prepared[framework],
                self.inputs,
                kind,
                (PRECISION,),
                work_dir=self.work_dir,
            )
            found = peak_of(kind, {framework: rates})
            cache.write(found)
        best = found.best.get(OPERATION)
        return best.work_per_s if best else None

    def _difference(self, kind: DeviceKind) -> str | None:
        """How the device's steps of the small model differ from the CPU's; None: they do not."""
        try:
            with tempfile.TemporaryDirectory(
                prefix=f"reference-{kind}-", dir=self.work_dir
            ) as folder:
                return self._largest_difference(kind, Path(folder))
        except ProofFailed as error:
            return str(error)

    def _largest_difference(self, kind: DeviceKind, folder: Path) -> str | None:
        inputs = obtain.obtain(SMALL, seed=1, folder=folder / "inputs", notify=self.notify)
        prover = Prover(
            engine=self.engine,
            prepared=dict(self.prepared),
            inputs=inputs,
            steps=STEPS,
            work_dir=folder,
            notify=self.notify,
        )
        trial = replace(self.trial, workload=SMALL, device="cpu", reference="cpu", seed=1)
        expected = reference_of(prover, trial).tensors
        other = replace(prover, work_dir=folder / "device")
        other.work_dir.mkdir()
        on_device = reference_of(other, replace(trial, reference=kind))
        for lowering in LOWERINGS:
            found = on_device.computed(lowering, PRECISION)
            name, error = max(map(largest, compare(found, expected)), key=lambda each: each[1])
            if error > TOLERANCE:
                return (
                    f"{lowering[0]} on {kind} differs from it by {error:.1e} in {name},"
                    f" more than {TOLERANCE:.0e}"
                )
        return None
