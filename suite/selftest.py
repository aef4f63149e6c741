"""Fault injection: faults are planted in copies of the worker, and the proofs must find each.

The faults of FAULTS show in the certificate's ten steps, those of RUN_FAULTS only in a timed run.
The reference comes from the worker without a fault, in which no proof may fail.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from suite import manifest
from suite.engines.base import Engine, Event, Prepared, Say
from suite.errors import DlsuiteError
from suite.execution import Execution
from suite.inputs import Inputs
from suite.judge import TOLERANCES, judged
from suite.manifest import PROOF_STEPS, Adam, Measure, Sgd, Workload
from suite.parity import reference_of
from suite.paths import WORKER
from suite.plan import Plan, Run, Trial
from suite.records import Parity, Record, RunFolder
from suite.reference import Reference, compare
from suite.tensors import Prover

WORKLOAD = Workload(
    model="every_layer",
    dataset="synthetic",
    batch_size=8,
    # An epsilon large enough that its place matters to gradients of common size.
    optimizer=Adam(name="adam", learning_rate=0.001, epsilon=1e-4),
)

# Of the timed runs: blocks are so short that a run is over soon, and has some hundred steps.
RUN_WORKLOAD = Workload(
    model="lenet",
    dataset="synthetic",
    batch_size=64,
    optimizer=Sgd(name="sgd", learning_rate=0.01),
    epochs=0,
)
RUN_MEASURE = Measure(block_s=0.1, min_measure_s=0.5, max_measure_s=1, sample_s=0)

# An engine, entered, that runs the worker in a folder.
MakeEngine = Callable[[Path], AbstractContextManager[Engine]]


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

RUN_FAULTS = (
    Fault(
        name="idle from the fortieth step",
        framework="tensorflow",
        file="frameworks/tensorflow.py",
        right="        return self._train_step(*batch)\n",
        wrong="""\
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls < 40:
            self._last = self._train_step(*batch)
        return self._last
""",
    ),
    Fault(
        name="half of the batch after warm-up",
        framework="pytorch",
        file="frameworks/pytorch.py",
        right="self._loss(self._run(batch[0]), batch[1])\n",
        wrong="""\
(
            self._loss(self._run(batch[0]), batch[1])
            if self._steps < 40
            else self._loss(self._run(batch[0][::2]), batch[1][::2])
        )
""",
    ),
    Fault(
        name="optimiser skipped in each second step",
        framework="mxnet",
        file="frameworks/mxnet.py",
        right="        self._trainer.step(self._trial.batch_size)\n",
        wrong="""\
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls % 2 or self._trial.mode != "train":
            self._trainer.step(self._trial.batch_size)
""",
    ),
    Fault(
        name="the same batch again and again",
        framework="tensorflow",
        file="data.py",
        right="return lambda step: session.put(*batches.at(step))",
        wrong="return lambda step: session.put(*batches.at(0))",
    ),
    Fault(
        name="a stale compiled graph, with the weights as constants",
        framework="jax",
        file="frameworks/jax.py",
        right="to_differentiate(params, rest, inputs, labels)",
        wrong="""to_differentiate(
            self._params if self._trial.mode == "train" else params, rest, inputs, labels
        )""",
    ),
    Fault(
        name="a device that is not waited for",
        framework="mxnet",
        file="frameworks/mxnet.py",
        right="        mx.nd.waitall()\n",
        wrong="        pass\n",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of one fault, or of the worker as it is in one framework variant."""

    fault: str | None
    framework: str
    variant: str
    caught_by: str | None  # where a proof saw it first

    @property
    def good(self) -> bool:
        return (self.fault is not None) == (self.caught_by is not None)


@dataclass(frozen=True)
class Messages:
    """Progress of runs that have no line of their own: the messages alone."""

    say: Say

    def planned(self, plan: Plan) -> None: ...

    def event(self, run: Run, event: Event) -> None: ...

    def done(self, run: Run, record: Record) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """`engine` runs the worker without a fault; `prepared` are the frameworks on it."""

    engine: Engine
    prepared: dict[str, Prepared]
    make_engine: MakeEngine
    inputs: Inputs  # of WORKLOAD
    run_inputs: Inputs  # of RUN_WORKLOAD
    work: Path
    say: Say

    def run(self, plan: Plan) -> Iterator[Finding]:
        """Each fault in the first trial of its framework; then each trial without a fault.

        A fault whose framework has no trial is left out. Raise ProofFailed where there is no
        trusted reference, or a worker dies: then the proof has seen nothing.
        """
        trials = [*dict.fromkeys(replace(trial, workload=WORKLOAD) for trial in plan.trials)]
        reference = reference_of(self._prover(self.engine, self.prepared, "clean"), trials[0])
        for number, fault in enumerate((*FAULTS, *RUN_FAULTS)):
            trial = next((each for each in trials if each.framework == fault.framework), None)
            if trial is None:
                continue
            self.say(f"planted in {trial.framework}: {fault.name}")
            worker = fault.plant(self.work / f"fault-{number}" / "worker")
            with self.make_engine(worker) as engine:
                framework = manifest.framework(trial.framework)
                prepared = {trial.framework: engine.prepare(framework, self.say)}
                if fault in FAULTS:
                    found = self._proof(engine, prepared, trial, reference, f"fault-{number}")
                else:
                    found = self._timed(engine, prepared, plan, trial, f"fault-{number}")
            yield _finding(fault.name, trial, found)
        for trial in trials:
            self.say(f"without a fault: {trial.means}")
            found = self._proof(self.engine, self.prepared, trial, reference, "clean")
            found = found or self._timed(self.engine, self.prepared, plan, trial, "clean")
            yield _finding(None, trial, found)

    def _prover(self, engine: Engine, prepared: dict[str, Prepared], name: str) -> Prover:
        work = self.work / name
        work.mkdir(parents=True, exist_ok=True)
        return Prover(
            engine=engine,
            prepared=prepared,
            inputs=self.inputs,
            steps=PROOF_STEPS,
            work=work,
            say=self.say,
        )

    def _proof(
        self,
        engine: Engine,
        prepared: dict[str, Prepared],
        trial: Trial,
        reference: Reference,
        name: str,
    ) -> str | None:
        """What the certificate's steps have against the worker; None where nothing."""
        prover = self._prover(engine, prepared, name)
        found = prover.tensors(trial, trial.workload.precision, role="selftest")
        errors = compare(found, reference.tensors)
        return judged(errors, reference, TOLERANCES["float32"]).verdict

    def _timed(
        self, engine: Engine, prepared: dict[str, Prepared], plan: Plan, trial: Trial, name: str
    ) -> str | None:
        """What a timed run of the worker has against it; None where it keeps its mark."""
        trial = replace(trial, workload=RUN_WORKLOAD)
        place = RunFolder(self.work / name / f"{trial.framework}-{trial.variant}-{trial.track}")
        place.logs.mkdir(parents=True)
        execution = Execution(
            engine=engine,
            progress=Messages(self.say),
            prepared=lambda trial: prepared[trial.framework],
            reference=lambda: (self.engine, self.prepared),
            measure_limit=None,
            work=self.work,
            plan=replace(plan, measure=RUN_MEASURE, verify_runs=True),
            given={RUN_WORKLOAD: self.run_inputs},
            marks={trial.trial_id: Parity(proven=True)},
            folder=place,
        )
        (record,) = execution.do([Run(trial=trial, repeat=0)])
        return _against(record)


def _against(record: Record) -> str | None:
    return record.error.message if record.error else record.parity.reason


def _finding(fault: str | None, trial: Trial, caught_by: str | None) -> Finding:
    return Finding(
        fault=fault, framework=trial.framework, variant=trial.variant, caught_by=caught_by
    )
