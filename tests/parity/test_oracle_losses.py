"""The reference's losses, sides of images and norms of vectors, compared with values by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.manifests.losses import Loss
from suite.manifests.workloads import Sgd
from suite.models.architecture import Architecture
from suite.models.layers import BatchNorm, Cropping2d, Dense, Flatten, ZeroPadding2d
from suite.parity.reference import TOLERANCE
from suite.parity.tensors import Tensors
from suite.paths import WORKER
from suite.protocol.plan import Plan
from tests.conftest import made_up, rest_in_verify
from tests.parity.test_oracle import Values, by_lowerings, first_images, largest_error

FEATURES, OUTPUTS, EPSILON = 4 * 7, 3, 1e-2
EMA_DECAY = 0.75
CLASS_WEIGHTS = (0.25, 3.0, 1.0)
MODEL = Architecture(
    name="oracle_losses",
    input_shape=(1, 28, 28),
    classes=OUTPUTS,
    layers=(
        ZeroPadding2d(name="zeros", top=1, left=2, right=3),  # 29 x 33
        Cropping2d(name="cropping", bottom=25, left=1, right=25),  # 4 x 7
        Flatten(name="flatten"),
        BatchNorm(name="norm", channels=FEATURES, epsilon=EPSILON, images=False),
        Dense(name="outputs", in_features=FEATURES, out_features=OUTPUTS),
    ),
)


def hidden_of(images: Values) -> Values:
    """What the batch norm of MODEL gets, (N, FEATURES)."""
    padded = np.pad(images, ((0, 0), (1, 0), (2, 3)))
    return padded[:, :4, 1:8].reshape(len(images), -1)


def by_hand(flat: Values, images: Values, targets: Values, loss: Loss) -> Tensors:
    """Outputs, loss and gradients of MODEL with the weights `flat`, on a whole batch."""
    scale, shift = flat[:FEATURES], flat[FEATURES : 2 * FEATURES]
    weight, bias = flat[2 * FEATURES : -OUTPUTS].reshape(OUTPUTS, FEATURES), flat[-OUTPUTS:]
    x = hidden_of(images)
    deviations = np.sqrt(x.var(axis=0) + EPSILON)
    normed = (x - x.mean(axis=0)) / deviations
    hidden = normed * scale + shift
    outputs = hidden @ weight.T + bias
    if loss == "mean_squared_error":
        value = np.mean((outputs - targets) ** 2)
        off = 2 * (outputs - targets) / outputs.size
    elif loss == "huber":
        errors = outputs - targets
        value = np.mean(np.where(abs(errors) <= 1, errors**2 / 2, abs(errors) - 0.5))
        off = np.clip(errors, -1, 1) / outputs.size
    elif loss == "cross_entropy":
        shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        right = np.arange(len(targets)), targets
        weights = np.asarray(CLASS_WEIGHTS)[targets] / np.asarray(CLASS_WEIGHTS)[targets].sum()
        value = -np.sum(weights * np.log(shares[right]))
        shares[right] -= 1
        off = weights[:, None] * shares
    else:
        sigmoid = 1 / (1 + np.exp(-outputs))
        value = -np.mean(targets * np.log(sigmoid) + (1 - targets) * np.log(1 - sigmoid))
        off = (sigmoid - targets) / outputs.size
    back = off @ weight
    return {
        "logits": outputs,
        "loss": np.asarray(value),
        "gradients norm.weight": (back * normed).sum(axis=0),
        "gradients norm.bias": back.sum(axis=0),
        "gradients outputs.weight": (off.T @ hidden).ravel(),
        "gradients outputs.bias": off.sum(axis=0),
    }


def of_micro_batches(
    flat: Values, images: Values, targets: Values, loss: Loss, parts: int, rate: float
) -> Tensors:
    """A step of SGD with the mean of the gradients of so many equal parts of the batch.

    The averages of the weights start at the weights.
    """
    of_images, of_targets = np.split(images, parts), np.split(targets, parts)
    found = [by_hand(flat, *both, loss) for both in zip(of_images, of_targets, strict=True)]
    step = {name: np.mean([each[name] for each in found], axis=0) for name in found[0]}
    step["logits"] = np.concatenate([each["logits"] for each in found])
    of_gradients = [name for name in step if name.startswith("gradients")]
    for name in of_gradients:
        update = name.replace("gradients", "updates")
        step[update] = -rate * step[name]
        step[f"{update} average"] = (1 - EMA_DECAY) * step[update]
    norm, means = MODEL.layers[3], [hidden_of(part).mean(axis=0) for part in of_images]
    assert isinstance(norm, BatchNorm)
    running = np.zeros(FEATURES)
    for mean in means:
        running += norm.momentum * (mean - running)
    return step | {"statistics norm.mean": running}


@pytest.mark.parametrize(
    "loss", rest_in_verify("cross_entropy", "mean_squared_error", "huber", "binary_cross_entropy")
)
def test_both_lowerings_compute_the_definitions(
    loss: Loss, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """Cross-entropy with weights of classes, each of four micro-batches with its own mean."""
    trial = quick("pytorch").trials[0]
    weights = CLASS_WEIGHTS if loss == "cross_entropy" else None
    parts = 4 if loss == "cross_entropy" else 1
    rate = 0.01
    sgd = Sgd(name="sgd", learning_rate=rate, ema_decay=EMA_DECAY)
    changes = {"loss": loss, "class_weights": weights, "accumulate": parts, "optimizer": sgd}
    workload = trial.workload.model_copy(update=changes)
    given = made_up(trial.workload.model_copy(update={"optimizer": sgd}), tmp_path)
    flat = np.random.default_rng(5).normal(0.2, 0.4, MODEL.parameter_count).astype(np.float32)
    np.save(given.weights, flat)
    random = np.random.default_rng(6)
    for split in ("train", "test"):
        path = given.data / f"{split}_labels.npy"
        targets = random.normal(size=(len(np.load(path)), OUTPUTS))
        if loss == "binary_cross_entropy":
            targets = targets > 0
        if loss == "cross_entropy":
            np.save(path, targets.argmax(axis=1).astype(np.int32))
        else:
            np.save(path, targets.astype(np.float32))
    inputs = replace(given, architecture=MODEL)
    order = np.load(inputs.order)[0, : workload.batch_size]
    chosen = np.load(inputs.data / "train_labels.npy")[order]
    images = first_images(inputs, workload.batch_size)
    expected = of_micro_batches(flat.astype(np.float64), images, chosen, loss, parts, rate)
    for found in by_lowerings(inputs, replace(trial, workload=workload), WORKER, tmp_path / "work"):
        assert largest_error({name: found[name] for name in expected}, expected) < TOLERANCE
