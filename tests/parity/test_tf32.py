"""The rules of TF32, tested without a GPU: truncated operands on a CPU stand for its products."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.datasets.inputs import Inputs
from suite.engines.venv.engine import VenvEngine
from suite.parity.certificates import judged
from suite.parity.keys import reference_of
from suite.parity.prover import Prover
from suite.parity.tensors import Tensors
from suite.parity.tolerances import RULES
from suite.paths import WORKER
from suite.protocol.plan import Plan, Trial
from suite.runner.frameworks import Frameworks
from tests.conftest import made_up

pytestmark = pytest.mark.verify
STEPS = 2
# Float32 has 13 bits more than TF32. The truncation takes the place of the simulation's rounding.
TRUNCATED = "    return (values.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32)\n"
ROUNDED = (
    "    large = values * (2.0 ** (FLOAT64_BITS - bits) + 1)\n    return large - (large - values)\n"
)
FAULTS = {
    "none": ("lr=rate, fused", "lr=rate, fused"),
    "learning rate": ("lr=rate, fused", "lr=1.1 * rate, fused"),
    "loss": ("self._loss(logits", "0.9 * self._loss(logits"),
}


def worker_in_tf32(folder: Path, right: str, wrong: str) -> Path:
    """A copy of the worker whose PyTorch truncates in float32, with a fault."""
    worker = folder / "worker"
    shutil.copytree(WORKER, worker, ignore=shutil.ignore_patterns("__pycache__"))
    changes = {
        "rounding.py": [(ROUNDED, TRUNCATED)],
        "session.py": [
            ("if trial.simulated_bits:", "if True:"),
            ("modules, trial.simulated_bits)", "modules, 11)"),
            (right, wrong),
        ],
    }
    for name, pairs in changes.items():
        path = worker / "frameworks/pytorch" / name
        text = path.read_text(encoding="utf-8")
        for before, after in pairs:
            assert text.count(before) == 1
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
    return worker


@pytest.fixture
def trial(quick: Callable[..., Plan]) -> Trial:
    return quick("pytorch").trials[0]


@pytest.fixture
def inputs(trial: Trial, tmp_path: Path) -> Inputs:
    return made_up(trial.workload, tmp_path / "inputs")


def prover(engine: VenvEngine, inputs: Inputs, folder: Path) -> Prover:
    folder.mkdir()
    return Prover(
        engine=engine,
        prepared=Frameworks(engine, print).with_reference(),
        inputs=inputs,
        steps=STEPS,
        work_dir=folder,
        notify=print,
    )


def tensors(trial: Trial, inputs: Inputs, folder: Path, fault: str) -> list[list[Tensors]]:
    """The steps of LeNet with products in TF32."""
    worker = worker_in_tf32(folder, *FAULTS[fault])
    emulated = prover(VenvEngine(worker), inputs, folder / "emulated")
    return emulated.of_ranks(trial, "float32", role="parity")


@pytest.mark.parametrize("fault", FAULTS)
def test_truncated_products_are_proven_and_faults_are_not(
    trial: Trial, inputs: Inputs, tmp_path: Path, fault: str
) -> None:
    reference = reference_of(prover(VenvEngine(), inputs, tmp_path / "reference"), trial)
    found, reason = judged(tensors(trial, inputs, tmp_path, fault), reference, RULES["tf32"])
    assert (reason is None) == (fault == "none"), reason
    assert len(found.errors) == STEPS
    if fault == "none":
        in_float32 = replace(found, tolerance=RULES["float32"].tolerance, raised=[])
        assert in_float32.verdict is not None  # the products are not float32
