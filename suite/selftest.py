"""The proof's own proof: faults are planted in copies of the worker, and each must be caught.

A fault is one line of the worker said wrongly, as it is said wrongly in the field. The reference
comes from the worker as it is; and that one, in every framework, must raise no alarm.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.engines.base import Engine, Prepared, Say
from suite.errors import DlsuiteError
from suite.inputs import Inputs
from suite.judge import TOLERANCES, judged
from suite.manifest import PROOF_STEPS, Adam, Workload
from suite.parity import reference_of
from suite.paths import WORKER
from suite.plan import Trial
from suite.reference import Reference, compare
from suite.tensors import Prover

WORKLOAD = Workload(
    model="every_layer",
    dataset="synthetic",
    batch_size=8,
    # An epsilon large enough that its place matters to gradients of common size.
    optimizer=Adam(name="adam", learning_rate=0.001, epsilon=1e-4),
)

MakeEngine = Callable[[Path], Engine]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`file` of the worker says `wrong` where it should say `right`; `framework` is run with it."""

    name: str
    framework: str
    file: str
    right: str
    wrong: str

    def plant(self, place: Path) -> Path:
        """A copy of the worker with this fault, in the new folder `place`."""
        shutil.copytree(WORKER, place, ignore=shutil.ignore_patterns("__pycache__"))
        path = place / self.file
        text = path.read_text(encoding="utf-8")
        if self.right not in text:
            raise DlsuiteError(
                f"the self-test's fault {self.name!r} no longer fits {self.file}",
                hint="mend FAULTS in suite/selftest.py",
            )
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")
        return place


FAULTS = (
    Fault(
        name="wrong batch-norm epsilon",
        framework="tensorflow",
        file="frameworks/tensorflow_layers.py",
        right='epsilon=layer["epsilon"],\n            is_training',
        wrong="epsilon=1e-3,\n            is_training",
    ),
    Fault(
        name="wrong batch-norm momentum convention",
        framework="mxnet",
        file="frameworks/mxnet_layers.py",
        right='"momentum": 1 - layer["momentum"]',
        wrong='"momentum": layer["momentum"]',
    ),
    Fault(
        name="asymmetric padding",
        framework="tensorflow",
        file="frameworks/tensorflow_layers.py",
        right='strides, padding = layer["stride"], _padding(layer)\n',
        wrong='strides, padding = layer["stride"], "SAME"\n',
    ),
    Fault(
        name="flatten order",
        framework="tensorflow",
        file="layouts.py",
        right="elif shape is not None:",
        wrong="elif False:",
    ),
    Fault(
        name="swapped data order",
        framework="mxnet",
        file="data.py",
        right="epoch, position = divmod(step, self.steps_per_epoch)",
        wrong="epoch, position = divmod({3: 4, 4: 3}.get(step, step), self.steps_per_epoch)",
    ),
    Fault(
        name="shifted labels",
        framework="mxnet",
        file="data.py",
        right="labels = self.labels.take(chosen, mode=mode)",
        wrong="labels = np.roll(self.labels, 1).take(chosen, mode=mode)",
    ),
    Fault(
        name="dropout left on",
        framework="pytorch",
        file="protocol.py",
        right='if self.mode == "parity":',
        wrong="if False:",
    ),
    Fault(
        name="loss summed instead of averaged",
        framework="pytorch",
        file="frameworks/pytorch.py",
        right="nn.CrossEntropyLoss()",
        wrong='nn.CrossEntropyLoss(reduction="sum")',
    ),
    Fault(
        name="wrong average-pool divisor",
        framework="pytorch",
        file="frameworks/pytorch_layers.py",
        right='nn.AvgPool2d(layer["kernel"],',
        wrong='nn.AvgPool2d(layer["kernel"], count_include_pad=False,',
    ),
    Fault(
        name="Adam epsilon misplaced",
        framework="tensorflow",
        file="frameworks/tensorflow.py",
        right='self._epsilon * tf.sqrt(1 - self._powers["beta2"])',
        wrong="self._epsilon",
    ),
    Fault(
        name="a frozen bias",
        framework="pytorch",
        file="frameworks/pytorch.py",
        right="_optimizer(trial, self._parameters.values())",
        wrong="_optimizer(trial, list(self._parameters.values())[:-1])",
    ),
    Fault(
        name="bfloat16 left on where float32 is claimed",
        framework="pytorch",
        file="frameworks/pytorch_device.py",
        right="        torch.set_num_threads(trial.threads)\n",
        wrong="        torch.set_num_threads(trial.threads)\n"
        '    torch.autocast("cpu", torch.bfloat16).__enter__()\n',
    ),
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of one fault, or of the worker as it is in one framework variant."""

    fault: str | None
    framework: str
    variant: str
    caught_by: str | None  # where the proof saw it first

    @property
    def good(self) -> bool:
        return (self.fault is not None) == (self.caught_by is not None)


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    make_engine: MakeEngine
    prepared: dict[str, Prepared]
    inputs: Inputs
    work: Path
    say: Say

    def run(self, trials: list[Trial]) -> Iterator[Finding]:
        """The faults, each in its framework's first trial; then each trial without one.

        A fault whose framework has no trial is left out. Raise ProofFailed where there is no
        trusted reference, or a worker dies: then the proof has seen nothing.
        """
        clean = self._prover("clean", WORKER)
        reference = reference_of(clean, trials[0])
        for number, fault in enumerate(FAULTS):
            trial = next((each for each in trials if each.framework == fault.framework), None)
            if trial is not None:
                self.say(f"planted in {trial.framework}: {fault.name}")
                worker = fault.plant(self.work / f"fault-{number}" / "worker")
                prover = self._prover(f"fault-{number}", worker)
                yield self._finding(fault.name, prover, trial, reference)
        for trial in trials:
            self.say(f"without a fault: {trial.means}")
            yield self._finding(None, clean, trial, reference)

    def _prover(self, name: str, worker: Path) -> Prover:
        work = self.work / name
        work.mkdir(parents=True, exist_ok=True)
        return Prover(
            engine=self.make_engine(worker),
            prepared=self.prepared,
            inputs=self.inputs,
            steps=PROOF_STEPS,
            work=work,
            say=self.say,
        )

    def _finding(
        self, fault: str | None, prover: Prover, trial: Trial, reference: Reference
    ) -> Finding:
        found = prover.tensors(trial, trial.workload.precision, role="selftest")
        judgement = judged(compare(found, reference.tensors), reference, TOLERANCES["float32"])
        return Finding(
            fault=fault,
            framework=trial.framework,
            variant=trial.variant,
            caught_by=judgement.verdict,
        )
