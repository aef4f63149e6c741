"""LAMB in each framework, compared with its formula in NumPy on the gradients of that framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from suite.manifests.workloads import Lamb
from suite.models.architecture import Architecture
from suite.models.layers import Dense
from suite.models.sequences import FirstToken, Gru, Rows, SelfAttention
from suite.protocol import trial_file
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from suite.worker import host
from tests.conftest import made_up, rest_in_verify
from tests.worker.conftest import in_environment

Values = Mapping[str, NDArray[np.float64]]
# Keras has three variables for the weights of an attention, and one for both biases of a GRU.
MODEL = Architecture(
    name="oracle_lamb",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        Rows(name="rows"),
        Gru(name="gru", in_features=28, hidden=8, sequence=True),
        SelfAttention(name="attention", features=8, heads=2),
        FirstToken(name="first"),
        Dense(name="classes", in_features=8, out_features=10),
    ),
)
OPTIMIZER = Lamb(
    name="lamb",
    learning_rate=0.02,
    weight_decay=0.3,
    beta1=0.8,
    beta2=0.95,
    epsilon=1e-3,  # so large that its place in the formula matters
)
STEPS = 3
TOLERANCES = {"float64": 1e-9, "float32": 2e-4}

SESSION = f"""
import sys
from pathlib import Path
import numpy as np
from suite.worker import frameworks
from suite.worker.data import Batches
from suite.worker.protocol import Trial, read_weights

for folder in map(Path, sys.argv[1:]):
    trial = Trial.read(folder)
    module = frameworks.load(trial)
    session = module.Session(trial, read_weights(trial))
    batches = Batches(trial, module.LAYOUT)
    for step in range({STEPS}):
        _, gradients = session.gradients(*batches.at(step))
        np.savez(folder / f"weights{{step}}.npz", **session.weights())
        np.savez(folder / f"gradients{{step}}.npz", **gradients)
        session.train_step(session.put(*batches.at(step)))
    np.savez(folder / "weights{STEPS}.npz", **session.weights())
    assert session.step_count() == {STEPS}
    for slot, values in session.optimizer_state().items():
        np.savez(folder / f"{{slot}}.npz", **values)
"""


def read(path: Path) -> Values:
    return {name: values.astype(np.float64) for name, values in np.load(path).items()}


def largest_error(found: Values, expected: Values) -> float:
    """The largest relative error of a tensor."""
    assert found.keys() == expected.keys()
    return max(
        float(np.linalg.norm(found[name] - values) / np.linalg.norm(values))
        for name, values in expected.items()
    )


def compare(folder: Path, *, exempt_vectors: bool, tolerance: float) -> None:
    """Compare each step, from the weights before it, with the formula in float64."""
    given = OPTIMIZER
    weights = read(folder / "weights0.npz")
    first: dict[str, NDArray[np.float64]] = {}
    second: dict[str, NDArray[np.float64]] = {}
    for step in range(STEPS):
        gradients = read(folder / f"gradients{step}.npz")
        after, expected = read(folder / f"weights{step + 1}.npz"), {}
        for name, g in gradients.items():
            w = weights[name]
            first[name] = given.beta1 * first.get(name, 0.0) + (1 - given.beta1) * g
            second[name] = given.beta2 * second.get(name, 0.0) + (1 - given.beta2) * g**2
            of_first, of_second = (1 - beta ** (step + 1) for beta in (given.beta1, given.beta2))
            u = first[name] / of_first / (np.sqrt(second[name] / of_second) + given.epsilon)
            ratio = 1.0
            if w.ndim > 1 or not exempt_vectors:
                u = u + given.weight_decay * w
                if np.any(w):
                    ratio = float(np.sqrt(np.sum(w**2)) / np.sqrt(np.sum(u**2)))
            expected[name] = -given.learning_rate * ratio * u
        updates = {name: after[name] - weights[name] for name in after}
        assert largest_error(updates, expected) < tolerance, (step, exempt_vectors)
        weights = after
    assert largest_error(read(folder / "first_moment.npz"), first) < tolerance
    assert largest_error(read(folder / "second_moment.npz"), second) < tolerance


@pytest.mark.parametrize(
    ("framework", "precision"),
    rest_in_verify(
        ("pytorch:eager", "float64"),
        ("jax:jit", "float64"),
        *((name, "float32") for name in ("pytorch:channels_last", "tensorflow:graph")),
        *((name, "float32") for name in ("mxnet:hybrid", "paddle:dygraph")),
        *((f"keras:{backend}", "float32") for backend in ("tensorflow", "jax", "pytorch")),
    ),
)
def test_steps_are_those_of_the_formula(
    framework: str, precision: str, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """With and without trust ratios of vectors; one of these starts with the norm 0."""
    folders = {}
    for exempt_vectors in (True, False):
        optimizer = OPTIMIZER.model_copy(update={"exempt_vectors": exempt_vectors})
        planned = quick(framework).trials[0]
        workload = planned.workload.model_copy(update={"optimizer": optimizer})
        place = tmp_path / str(exempt_vectors)
        inputs = replace(made_up(workload, place), architecture=MODEL)
        weights = np.random.default_rng(5).normal(0, 0.4, MODEL.parameter_count)
        weights[-10:] = 0  # the bias of the last layer
        np.save(inputs.weights, weights.astype(np.float32))
        trial = replace(planned, workload=workload)
        task = Task(trial=trial, inputs=inputs, mode="parity", precision=precision, steps=STEPS)
        folders[exempt_vectors] = place / "trial"
        trial_file.write(folders[exempt_vectors], task, cpus=host.cpus())
    name = framework.partition(":")[0]
    in_environment(name, SESSION, *map(str, folders.values()), folder=tmp_path)
    for exempt_vectors, folder in folders.items():
        compare(folder, exempt_vectors=exempt_vectors, tolerance=TOLERANCES[precision])
