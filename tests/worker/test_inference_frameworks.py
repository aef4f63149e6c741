"""Each framework's model in its inference form gives the logits of a float64 reference.

The running statistics are those of the suite, not the initial ones. The reference is PyTorch's
training module, which folds nothing.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.manifests import catalog
from suite.manifests.workloads import Workload
from suite.models import MODELS
from suite.paths import WORKER
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Task
from suite.runner.support import unsupported_reason
from suite.worker import host
from tests.conftest import made_up
from tests.worker.conftest import in_environment

NAMES = (
    "lenet",
    "every_layer",
    "every_sequence",
    "every_mobile",
    "every_window",
    "every_channel",
    "every_decoder",
    "every_attention",
    "every_padded",
    "every_swin",
    "every_response",
    "vit_tiny_cifar10",
)
DATASETS = {"vit_tiny_cifar10": "cifar10", "every_padded": "synthetic"}  # mnist for the others
BATCH_SIZE = 4
TIMEOUT_S = 600  # PyTensor and torch.compile take minutes to compile all models
QUICK = "pytorch:eager"  # the others only in `make verify`

REFERENCE = """
import dataclasses, sys
from pathlib import Path
import numpy as np
from suite.worker.frameworks.pytorch.session import LAYOUT, Session
from suite.worker.data import Split
from suite.worker.protocol import State, Trial, read_statistics, read_weights

for folder in map(Path, sys.argv[1:]):
    trial = dataclasses.replace(
        Trial.read(folder), scenario=None, precision="float64", framework="pytorch",
        variant="eager", optimizer={"name": "sgd", "learning_rate": 0.01},
    )
    weights = read_weights(trial)
    session = Session(trial, weights)
    session.restore(State(weights, read_statistics(trial), {}, 0))
    inputs = Split(trial, "test", LAYOUT).take(np.arange(2 * trial.batch_size))[0]
    np.save(folder / "expected.npy", session.logits(inputs))
"""

COMPARE = """
import dataclasses, sys
from pathlib import Path
import numpy as np
from suite.worker.data import Split
from suite.worker.frameworks import load
from suite.worker.protocol import Trial, read_statistics, read_weights

framework, variant, precision, tolerance, *folders = sys.argv[1:]
for folder in map(Path, folders):
    trial = dataclasses.replace(
        Trial.read(folder), framework=framework, variant=variant, precision=precision
    )
    module = load(trial)
    predictor = module.Predictor(trial, read_weights(trial), read_statistics(trial))
    inputs = Split(trial, "test", module.LAYOUT).take(np.arange(2 * trial.batch_size))[0]
    batches = np.split(inputs, 2)
    found = []
    for batch in [*batches, batches[0]]:
        logits = predictor.predict(np.ascontiguousarray(batch))
        assert logits.flags.c_contiguous and logits.dtype == trial.dtype, folder.name
        found.append(logits.copy())
    expected = np.load(folder / "expected.npy")
    np.testing.assert_array_equal(found[0], found[2])
    error = np.linalg.norm(np.concatenate(found[:2]) - expected) / np.linalg.norm(expected)
    assert error < float(tolerance), f"{folder.name}: {error}"
    print(folder.name)
"""


def workload(model: str) -> Workload:
    """Inference of a model, `BATCH_SIZE` samples a call."""
    values = {"mode": "infer", "scenario": "offline", "query_samples": 2 * BATCH_SIZE}
    dataset = DATASETS.get(model, "mnist")
    return Workload(model=model, dataset=dataset, batch_size=BATCH_SIZE, **values)


def forms() -> dict[str, Trial]:
    """A trial of each variant of each framework that does inference on a CPU, in Python.

    The worker in C++ has tests of its own.
    """
    plan = expand(catalog.suite("quick"), catalog.frameworks(), catalog.tracks(), only=["all"])
    return {
        f"{each.framework}:{each.variant}": each
        for each in plan.trials
        if (WORKER / "frameworks" / each.framework / "inference.py").exists()
        and unsupported_reason(replace(each, workload=workload("lenet"))) is None
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folder of a trial for each model, with the logits that are expected."""
    made = []
    for model in NAMES:
        place = tmp_path_factory.mktemp(model)
        planned = replace(forms()["pytorch:eager"], workload=workload(model))
        given = made_up(planned.workload, place)
        # Biases that are not zero, and weights of normalizations that are not one.
        noise = np.random.default_rng(1).normal(0, 0.05, MODELS[model]().parameter_count)
        np.save(given.weights, np.load(given.weights) + noise.astype(np.float32))
        task = Task(trial=planned, inputs=given, mode="infer")
        trial_file.write(place / model, task, cpus=host.cpus())
        made.append(place / model)
    in_environment("pytorch", REFERENCE, *map(str, made), folder=made[0], timeout_s=TIMEOUT_S)
    return made


def compare(
    folders: list[Path], form: Trial, tmp_path: Path, precision: str, tolerance: float
) -> None:
    """Compare the models that the framework supports with the reference."""
    fitting = [
        folder
        for folder in folders
        if unsupported_reason(replace(form, workload=workload(folder.name))) is None
    ]
    names = form.framework, form.variant, precision, str(tolerance)
    code = COMPARE, *names, *map(str, fitting)
    output = in_environment(form.framework, *code, folder=tmp_path, timeout_s=TIMEOUT_S)
    assert set(output.split()) >= {folder.name for folder in fitting} >= {"lenet"}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, id=name, marks=() if name == QUICK else pytest.mark.verify)
        for name, form in forms().items()
    ],
)
def test_the_logits_are_those_of_the_reference(
    form: Trial, folders: list[Path], tmp_path: Path
) -> None:
    compare(folders, form, tmp_path, "float32", 1e-5)


@pytest.mark.verify
def test_jax_keeps_the_precision_of_float64(folders: list[Path], tmp_path: Path) -> None:
    compare(folders, forms()["jax:jit"], tmp_path, "float64", 1e-12)
