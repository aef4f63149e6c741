"""The reference compared with values worked out by hand in numpy.

Two lowerings that are wrong in the same way cannot show each other's fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from suite.datasets.inputs import Inputs
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.manifests.tracks import EQUAL
from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Flatten
from suite.models.sequences import Lstm, Rows
from suite.parity.errors import compare, largest
from suite.parity.prover import Prover
from suite.parity.reference import TOLERANCE
from suite.parity.tensors import Tensors
from suite.parity.workers import LOWERINGS
from suite.paths import WORKER
from suite.protocol.plan import Plan, Trial
from suite.runner.frameworks import Frameworks
from suite.worker.protocol import SIMULATED_BITS
from tests.conftest import made_up, rest_in_verify

Values = NDArray[np.float64]
HIDDEN = 4  # so small that no tensor has more than 256 values: each is its own sketch
# A convolution, an LSTM and a dense layer, one after the other.
MODEL = Architecture(
    name="oracle",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        Conv2d(
            name="conv", in_channels=1, out_channels=1, kernel=(3, 5), stride=(2, 2), padding=(1, 2)
        ),
        Rows(name="rows"),
        Lstm(name="lstm", in_features=14, hidden=HIDDEN),
        Dense(name="classes", in_features=HIDDEN, out_features=10),
    ),
)


def sigmoid(values: Values) -> Values:
    return 1 / (1 + np.exp(-values))


def by_hand(weights: dict[str, Values], images: Values, labels: NDArray[np.int32]) -> Tensors:
    """Logits, loss and gradients of MODEL, from the definitions in docs/reference/protocol.md.

    `images` (N, 28, 28), `labels` (N,).
    """
    count = len(labels)
    kernel = weights["conv.weight"][0, 0]
    padded = np.pad(images, ((0, 0), (1, 1), (2, 2)))
    # Cross-correlation with stride 2: windows[n, y, x] are the pixels under the kernel.
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 5), axis=(1, 2))[:, ::2, ::2]
    rows = np.einsum("nyxij,ij->nyx", windows, kernel) + weights["conv.bias"]  # (N, 14, 14)

    hidden, cell = np.zeros((count, HIDDEN)), np.zeros((count, HIDDEN))
    steps = []
    for row in rows.transpose(1, 0, 2):
        gates = row @ weights["lstm.input_weight"].T + hidden @ weights["lstm.hidden_weight"].T
        i, f, g, o = np.split(gates + weights["lstm.bias"], 4, axis=1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        before = hidden, cell
        cell = f * cell + i * g
        hidden = o * np.tanh(cell)
        steps.append((row, *before, i, f, g, o, cell))

    logits = hidden @ weights["classes.weight"].T + weights["classes.bias"]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    right = np.arange(count), labels
    loss = -np.log(shares[right]).mean()

    shares[right] -= 1
    off = shares / count  # the loss's gradient with respect to the logits
    gradients = {"classes.weight": off.T @ hidden, "classes.bias": off.sum(axis=0)}
    gradients |= {f"lstm.{n}": np.zeros_like(weights[f"lstm.{n}"]) for n in LSTM}
    to_hidden, to_cell = off @ weights["classes.weight"], np.zeros((count, HIDDEN))
    to_rows = np.empty_like(rows)
    for number in reversed(range(len(steps))):
        row, hidden, cell, i, f, g, o, after = steps[number]
        to_cell = to_cell + to_hidden * o * (1 - np.tanh(after) ** 2)
        to_gates = np.concatenate(
            [
                to_cell * g * i * (1 - i),
                to_cell * cell * f * (1 - f),
                to_cell * i * (1 - g**2),
                to_hidden * np.tanh(after) * o * (1 - o),
            ],
            axis=1,
        )
        gradients["lstm.input_weight"] += to_gates.T @ row
        gradients["lstm.hidden_weight"] += to_gates.T @ hidden
        gradients["lstm.bias"] += to_gates.sum(axis=0)
        to_rows[:, number] = to_gates @ weights["lstm.input_weight"]
        to_hidden, to_cell = to_gates @ weights["lstm.hidden_weight"], to_cell * f
    gradients["conv.weight"] = np.einsum("nyx,nyxij->ij", to_rows, windows)[None, None]
    gradients["conv.bias"] = to_rows.sum(keepdims=True)[0, 0]
    named = {f"gradients {name}": values.ravel() for name, values in gradients.items()}
    return {"logits": logits, "loss": np.asarray(loss), **named}


LSTM = ("input_weight", "hidden_weight", "bias")


@pytest.fixture
def inputs(quick: Callable[..., Plan], tmp_path: Path) -> Inputs:
    """Made-up images for MODEL, and weights without a zero."""
    of_lenet = made_up(quick("pytorch").trials[0].workload, tmp_path)
    path = tmp_path / "weights.npy"
    generator = np.random.default_rng(5)
    np.save(path, generator.normal(0, 0.4, MODEL.parameter_count).astype(np.float32))
    return replace(of_lenet, architecture=MODEL, weights=path)


def first_images(inputs: Inputs, batch_size: int) -> Values:
    """The normalized images (N, 28, 28) of the first batch."""
    order = np.load(inputs.order)[0, :batch_size]
    return normalized(inputs, np.load(inputs.data / "train_inputs.npy")[order])


def normalized(inputs: Inputs, images: NDArray[np.uint8]) -> Values:
    """Images (N, 1, 28, 28) as the workers get them, (N, 28, 28)."""
    mean, std = inputs.dataset.normalize.mean[0], inputs.dataset.normalize.std[0]
    values: Values = (images[:, 0] / 255 - mean) / std
    return values


def first_batch_by_hand(inputs: Inputs, batch_size: int) -> Tensors:
    """Logits, loss and gradients of the first batch."""
    order = np.load(inputs.order)[0, :batch_size]
    labels = np.load(inputs.data / "train_labels.npy")[order]
    stops = np.cumsum([parameter.size for parameter in MODEL.parameters()])
    parts = np.split(np.load(inputs.weights).astype(np.float64), stops[:-1])
    weights = {
        parameter.name: part.reshape(parameter.shape)
        for parameter, part in zip(MODEL.parameters(), parts, strict=True)
    }
    return by_hand(weights, first_images(inputs, batch_size), labels)


def by_lowerings(
    inputs: Inputs, trial: Trial, worker: Path, folder: Path, precision: str = "float64"
) -> list[Tensors]:
    """The first step of each lowering."""
    engine = VenvEngine(worker)
    prepared = Frameworks(engine, print).with_reference()
    found = []
    for framework, variant in LOWERINGS:
        work_dir = folder / framework
        work_dir.mkdir(parents=True)
        prover = Prover(
            engine=engine,
            prepared=prepared,
            inputs=inputs,
            steps=1,
            work_dir=work_dir,
            notify=print,
        )
        runtime = catalog.runtime_settings(framework, EQUAL, "cpu")
        lowered = replace(trial, framework=framework, variant=variant, runtime=runtime)
        found += prover.tensors(lowered, precision, role="oracle")
    return found


def largest_error(found: Tensors, expected: Tensors) -> float:
    return largest(compare([found], [expected])[0])[1]


def test_both_lowerings_compute_the_definitions(
    inputs: Inputs, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    expected = first_batch_by_hand(inputs, trial.workload.batch_size)
    for found in by_lowerings(inputs, trial, WORKER, tmp_path):
        assert largest_error(found, expected) < TOLERANCE


@pytest.mark.verify
def test_a_fault_in_both_lowerings_shows_only_by_hand(
    inputs: Inputs, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """The fault: an image is read by columns instead of by rows."""
    faults = (
        ("pytorch", "images.squeeze(1))", "images.squeeze(1).transpose(1, 2))"),
        ("jax", "lambda images: images[..., 0],", "lambda images: images[..., 0].swapaxes(1, 2),"),
    )
    worker = tmp_path / "worker"
    shutil.copytree(WORKER, worker, ignore=shutil.ignore_patterns("__pycache__"))
    for framework, right, wrong in faults:
        path = worker / "frameworks" / framework / "layers.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(right) == 1
        path.write_text(text.replace(right, wrong), encoding="utf-8")
    trial = quick("pytorch").trials[0]
    first, second = by_lowerings(inputs, trial, worker, tmp_path / "work")
    assert largest_error(first, second) < TOLERANCE
    expected = first_batch_by_hand(inputs, trial.workload.batch_size)
    assert largest_error(first, expected) > 0.01 and largest_error(second, expected) > 0.01


def to_bits(values: Values, bits: int) -> Values:
    """The values rounded to the nearest number with a significand of so many bits."""
    significand, exponent = np.frexp(values)
    rounded: Values = np.ldexp(np.round(significand * 2.0**bits), exponent - bits)
    return rounded


@pytest.mark.verify
@pytest.mark.parametrize(("precision", "bits"), rest_in_verify(*SIMULATED_BITS.items()))
def test_both_lowerings_round_input_parameters_and_result(
    inputs: Inputs, quick: Callable[..., Plan], tmp_path: Path, precision: str, bits: int
) -> None:
    layers = (Flatten(name="flat"), Dense(name="classes", in_features=28 * 28, out_features=10))
    model = Architecture(name="oracle", input_shape=(1, 28, 28), classes=10, layers=layers)
    weights = np.random.default_rng(5).normal(0, 0.1, (10, 28 * 28 + 1)).astype(np.float32)
    np.save(inputs.weights, np.concatenate([weights[:, :-1].ravel(), weights[:, -1]]))
    trial = quick("pytorch").trials[0]
    images = first_images(inputs, trial.workload.batch_size).reshape(-1, 28 * 28)
    kernel, bias = np.split(to_bits(weights.astype(np.float64), bits), [28 * 28], axis=1)
    expected = to_bits(to_bits(images, bits) @ kernel.T + bias.T, bits)
    changed = replace(inputs, architecture=model)
    for found in by_lowerings(changed, trial, WORKER, tmp_path / "training", precision):
        assert largest_error({"logits": found["logits"]}, {"logits": expected}) < TOLERANCE

    size = len(np.load(inputs.data / "test_labels.npy"))
    infers = {"mode": "infer", "scenario": "offline", "optimizer": None, "epochs": 0}
    workload = trial.workload.model_copy(
        update=infers | {"query_samples": size, "batch_size": size // 2}
    )
    images = normalized(inputs, np.load(inputs.data / "test_inputs.npy")).reshape(size, -1)
    expected = to_bits(to_bits(images, bits) @ kernel.T + bias.T, bits)
    answering = replace(trial, workload=workload)
    for found in by_lowerings(changed, answering, WORKER, tmp_path / "inference", precision):
        assert largest_error(found, {"logits": expected}) < TOLERANCE
