"""The reference's layers of decoders, language models, states and windows, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.models.architecture import Architecture
from suite.models.branches import Add, Concat
from suite.models.layers import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    LocalResponseNorm,
    RmsNorm,
    TransposedConv2d,
    Upsample,
    ZeroPadding2d,
)
from suite.models.sequences import FirstToken, Gru, Lstm, MeanToken, Reverse, Rows, SelfAttention
from suite.models.windows import PatchMerging, WindowAttention
from suite.parity.reference import TOLERANCE
from suite.paths import WORKER
from suite.protocol.plan import Plan
from tests.conftest import made_up
from tests.parity.test_oracle import Values, by_lowerings, first_images, largest_error, sigmoid

IMAGES = Architecture(
    name="oracle_images",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        AvgPool2d(name="pool", kernel=(14, 7), stride=(14, 7)),  # 1 x 2 x 4
        TransposedConv2d(
            name="larger",
            in_channels=1,
            out_channels=4,
            kernel=(3, 2),
            stride=(2, 1),
            padding=(1, 1),
            extra=(1, 0),
        ),  # 4 x 4 x 3
        GroupNorm(name="norm", channels=4, groups=2, epsilon=1e-2),
        TransposedConv2d(
            name="longer", in_channels=4, out_channels=4, kernel=(3, 1), stride=(2, 1), bias=False
        ),  # 4 x 9 x 3
        Upsample(name="wide", factor=(1, 2), mode="nearest"),  # 4 x 9 x 6
        Flatten(name="flatten"),
        Dense(name="end", in_features=4 * 9 * 6, out_features=10, bias=False),
    ),
)
BILINEAR = Architecture(
    name="oracle_bilinear",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        AvgPool2d(name="pool", kernel=(14, 7), stride=(14, 7)),  # 1 x 2 x 4
        Upsample(name="upsample", factor=(3, 3), mode="bilinear"),  # 1 x 6 x 12
        Flatten(name="flatten"),
        Dense(name="end", in_features=6 * 12, out_features=10, bias=False),
    ),
)
RESPONSES = Architecture(
    name="oracle_responses",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        AvgPool2d(name="pool", kernel=(14, 7), stride=(14, 7)),  # 1 x 2 x 4
        Conv2d(name="conv", in_channels=1, out_channels=6, kernel=(1, 1)),
        LocalResponseNorm(name="norm", size=5, alpha=4.0, beta=0.75, k=1.5),
        Flatten(name="flatten"),
        Dense(name="end", in_features=6 * 8, out_features=10, bias=False),
    ),
)
FEATURES, HIDDEN, HEADS = 8, 10, 4
SEQUENCES = Architecture(
    name="oracle_sequences",
    input_shape=(1, 28, 28),
    classes=HIDDEN,
    layers=(
        AvgPool2d(name="pool", kernel=(4, 3), stride=(4, 3), padding=(0, 0)),  # 1 x 7 x 9
        AvgPool2d(name="narrow", kernel=(1, 2), stride=(1, 1)),  # 1 x 7 x 8
        Rows(name="rows"),
        RmsNorm(name="norm", features=FEATURES, epsilon=1e-2),
        SelfAttention(
            name="halves",
            features=FEATURES,
            heads=HEADS,
            kv_heads=2,
            rotary_theta=50.0,
            bias=False,
        ),
        SelfAttention(
            name="neighbours",
            features=FEATURES,
            heads=2,
            rotary_theta=20.0,
            interleaved=True,
            causal=True,
        ),
        Lstm(name="lstm", in_features=FEATURES, hidden=HIDDEN, sequence=True),
        Add(
            name="add",
            branches=(
                (MeanToken(name="mean"),),
                (
                    Gru(name="states", in_features=HIDDEN, hidden=HIDDEN, sequence=True),
                    Gru(name="last", in_features=HIDDEN, hidden=HIDDEN),
                ),
                (
                    Reverse(name="turn"),
                    Gru(name="back", in_features=HIDDEN, hidden=HIDDEN, sequence=True),
                    Reverse(name="turn_back"),
                    Concat(name="features", sequence=True, branches=((), (Reverse(name="r"),))),
                    FirstToken(name="first"),
                    Dense(name="narrow_end", in_features=2 * HIDDEN, out_features=HIDDEN),
                ),
            ),
        ),
    ),
)
WINDOWS = Architecture(
    name="oracle_windows",
    input_shape=(1, 28, 28),
    classes=10,
    layers=(
        AvgPool2d(name="pool", kernel=(7, 4), stride=(7, 4)),  # 1 x 4 x 7
        ZeroPadding2d(name="zeros", right=1),  # 1 x 4 x 8
        PatchMerging(name="merging"),  # 4 x 2 x 4
        WindowAttention(name="plain", features=4, heads=2, window=(2, 2)),
        Upsample(name="larger", factor=(2, 1)),  # 4 x 4 x 4
        WindowAttention(name="shifted", features=4, heads=1, window=(2, 2), shift=(1, 1)),
        Flatten(name="flatten"),
        Dense(name="end", in_features=64, out_features=10, bias=False),
    ),
)
Weights = dict[str, Values]


def pooled(images: Values, rows: int, columns: int) -> Values:
    count, height, width = images.shape
    size = height // rows, width // columns
    cut = images[:, : size[0] * rows, : size[1] * columns]
    return cut.reshape(count, size[0], rows, size[1], columns).mean(axis=(2, 4))


def transposed(
    images: Values, weight: Values, stride: tuple[int, int], crop: Any, size: Any
) -> Values:
    """Each value of the input adds its product with the weight to a window of the output."""
    count, _, height, width = images.shape
    _, outputs, rows, columns = weight.shape
    whole = np.zeros((count, outputs, 2 * height + rows + 2, 2 * width + columns + 2))
    for y in range(height):
        for x in range(width):
            part = np.einsum("nc,cokl->nokl", images[:, :, y, x], weight)
            top, left = y * stride[0], x * stride[1]
            whole[:, :, top : top + rows, left : left + columns] += part
    return whole[:, :, crop[0] : crop[0] + size[0], crop[1] : crop[1] + size[1]]


def of_images(weights: Weights, images: Values) -> Values:
    small = pooled(images, 14, 7)[:, None]
    larger = transposed(small, weights["larger.weight"], (2, 1), (1, 1), (4, 3))
    larger = larger + weights["larger.bias"][:, None, None]
    groups = larger.reshape(len(images), 2, -1)
    mean, variance = groups.mean(axis=2, keepdims=True), groups.var(axis=2, keepdims=True)
    normed = ((groups - mean) / np.sqrt(variance + 1e-2)).reshape(larger.shape)
    normed = normed * weights["norm.weight"][:, None, None] + weights["norm.bias"][:, None, None]
    longer = transposed(normed, weights["longer.weight"], (2, 1), (0, 0), (9, 3))
    return longer.repeat(2, axis=3).reshape(len(images), -1) @ weights["end.weight"].T


def interpolation(size: int, factor: int) -> Values:
    """The matrix (factor x size, size) of a bilinear interpolation along one axis."""
    matrix = np.zeros((factor * size, size))
    for target in range(factor * size):
        place = min(max((target + 0.5) / factor - 0.5, 0), size - 1)
        low = min(int(place), size - 2)
        matrix[target, low : low + 2] = 1 - (place - low), place - low
    return matrix


def of_bilinear(weights: Weights, images: Values) -> Values:
    small = pooled(images, 14, 7)
    wide = np.einsum("ay,nyx,bx->nab", interpolation(2, 3), small, interpolation(4, 3))
    return wide.reshape(len(images), -1) @ weights["end.weight"].T


def rotated(heads: Values, theta: float, pairs: list[tuple[int, int]]) -> Values:
    """Heads (N, heads, length, size), of which each pair of values is turned by its angle."""
    found = heads.copy()
    for number, (a, b) in enumerate(pairs):
        angle = np.arange(heads.shape[2]) * theta ** (-2 * number / heads.shape[3])
        cosine, sine = np.cos(angle), np.sin(angle)
        found[..., a] = heads[..., a] * cosine - heads[..., b] * sine
        found[..., b] = heads[..., b] * cosine + heads[..., a] * sine
    return found


def attention(x: Values, weights: Weights, name: str, heads: int, kept: int, turn: Any) -> Values:
    count, length, features = x.shape
    size = features // heads
    bias = weights.get(f"{name}.in_bias", np.zeros(1))
    parts = (x @ weights[f"{name}.in_weight"].T + bias).reshape(count, length, -1, size)
    parts = parts.transpose(0, 2, 1, 3)
    queries, keys, values = turn(parts[:, :heads]), turn(parts[:, heads : heads + kept]), parts
    values = values[:, heads + kept :]
    mixed = np.zeros((count, heads, length, size))
    for head in range(heads):
        shared = head // (heads // kept)
        scores = queries[:, head] @ keys[:, shared].transpose(0, 2, 1) / np.sqrt(size)
        if name == "neighbours":  # it is causal
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        mixed[:, head] = shares / shares.sum(axis=2, keepdims=True) @ values[:, shared]
    joined = mixed.transpose(0, 2, 1, 3).reshape(count, length, features)
    return joined @ weights[f"{name}.out_weight"].T + weights.get(f"{name}.out_bias", np.zeros(1))


def lstm(x: Values, weights: Weights, name: str) -> Values:
    hidden, cell, states = np.zeros((len(x), HIDDEN)), np.zeros((len(x), HIDDEN)), []
    for member in x.transpose(1, 0, 2):
        product = hidden @ weights[f"{name}.hidden_weight"].T + weights[f"{name}.bias"]
        i, f, g, o = np.split(member @ weights[f"{name}.input_weight"].T + product, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.stack(states, axis=1)


def gru(x: Values, weights: Weights, name: str) -> Values:
    hidden, states = np.zeros((len(x), HIDDEN)), []
    for member in x.transpose(1, 0, 2):
        of_input = member @ weights[f"{name}.input_weight"].T + weights[f"{name}.bias"]
        of_hidden = hidden @ weights[f"{name}.hidden_weight"].T + weights[f"{name}.hidden_bias"]
        (r, z, x_n), (r_h, z_h, h_n) = (np.split(part, 3, axis=1) for part in (of_input, of_hidden))
        reset, update = sigmoid(r + r_h), sigmoid(z + z_h)
        hidden = (1 - update) * np.tanh(x_n + reset * h_n) + update * hidden
        states.append(hidden)
    return np.stack(states, axis=1)


def of_sequences(weights: Weights, images: Values) -> Values:
    small = pooled(images, 4, 3)
    x = (small[:, :, :-1] + small[:, :, 1:]) / 2
    x = x / np.sqrt((x**2).mean(axis=2, keepdims=True) + 1e-2) * weights["norm.weight"]
    x = attention(x, weights, "halves", HEADS, 2, lambda part: rotated(part, 50.0, [(0, 1)]))
    pairs = [(0, 1), (2, 3)]
    x = attention(x, weights, "neighbours", 2, 2, lambda part: rotated(part, 20.0, pairs))
    x = lstm(x, weights, "lstm")
    back = gru(x[:, ::-1], weights, "back")  # its last state is that of the first member
    ends = np.concatenate([back[:, -1], back[:, 0]], axis=1)
    narrow = ends @ weights["narrow_end.weight"].T + weights["narrow_end.bias"]
    return x.mean(axis=1) + gru(gru(x, weights, "states"), weights, "last")[:, -1] + narrow


def attended(x: Values, weights: Weights, name: str, heads: int, shift: int) -> Values:
    """Attention in windows of 2 x 2, pixel by pixel; x is (N, height, width, features)."""
    height, width, features = x.shape[1:]
    size = features // heads
    parts = x @ weights[f"{name}.in_weight"].T + weights[f"{name}.in_bias"]
    queries, keys, values = np.split(parts, 3, axis=3)
    mixed = np.zeros_like(x)

    def window(place: tuple[int, int]) -> tuple[int, ...]:
        """The window of a pixel, in the image that is moved; its wrapped parts are others."""
        moved = [
            (each - shift) % extent for each, extent in zip(place, (height, width), strict=True)
        ]
        wrapped = [each < shift for each in place]
        return (*(each // 2 for each in moved), *wrapped)

    places = [(y, x) for y in range(height) for x in range(width)]
    for y, x_place in places:
        near = [each for each in places if window(each) == window((y, x_place))]
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = []
            for y_key, x_key in near:
                down = (y - shift) % height - (y_key - shift) % height
                right = (x_place - shift) % width - (x_key - shift) % width
                row = (down + 1) * 3 + right + 1
                product = (queries[:, y, x_place, part] * keys[:, y_key, x_key, part]).sum(axis=1)
                scores.append(product / np.sqrt(size) + weights[f"{name}.table"][row, head])
            shares = np.exp(np.stack(scores, axis=1))
            shares /= shares.sum(axis=1, keepdims=True)
            given = np.stack([values[:, y_key, x_key, part] for y_key, x_key in near], axis=1)
            mixed[:, y, x_place, part] = (shares[:, :, None] * given).sum(axis=1)
    return mixed @ weights[f"{name}.out_weight"].T + weights[f"{name}.out_bias"]


def of_windows(weights: Weights, images: Values) -> Values:
    small = np.pad(pooled(images, 7, 4), ((0, 0), (0, 0), (0, 1)))
    merged = np.stack([small[:, y::2, x::2] for y, x in ((0, 0), (1, 0), (0, 1), (1, 1))], axis=3)
    plain = attended(merged, weights, "plain", 2, 0).repeat(2, axis=1)
    shifted = attended(plain, weights, "shifted", 1, 1)
    return shifted.transpose(0, 3, 1, 2).reshape(len(images), -1) @ weights["end.weight"].T


def of_responses(weights: Weights, images: Values) -> Values:
    small = pooled(images, 14, 7)
    x = small[:, None] * weights["conv.weight"][:, 0] + weights["conv.bias"][:, None, None]
    normed = np.empty_like(x)
    for channel in range(6):
        near = x[:, max(0, channel - 2) : channel + 3]
        normed[:, channel] = x[:, channel] / (1.5 + 4 / 5 * (near**2).sum(axis=1)) ** 0.75
    return normed.reshape(len(images), -1) @ weights["end.weight"].T


@pytest.mark.parametrize(
    ("model", "by_hand"),
    [
        (IMAGES, of_images),
        pytest.param(BILINEAR, of_bilinear, marks=pytest.mark.verify),
        pytest.param(RESPONSES, of_responses, marks=pytest.mark.verify),
        pytest.param(SEQUENCES, of_sequences, marks=pytest.mark.verify),
        pytest.param(WINDOWS, of_windows, marks=pytest.mark.verify),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_both_lowerings_compute_the_definitions(
    model: Architecture,
    by_hand: Callable[[Weights, Values], Values],
    quick: Callable[..., Plan],
    tmp_path: Path,
) -> None:
    trial = quick("pytorch").trials[0]
    given = made_up(trial.workload, tmp_path)
    flat = np.random.default_rng(5).normal(0.1, 0.4, model.parameter_count).astype(np.float32)
    np.save(given.weights, flat)
    stops = np.cumsum([each.size for each in model.parameters()])
    parts = np.split(flat.astype(np.float64), stops[:-1])
    weights = {
        each.name: part.reshape(each.shape)
        for each, part in zip(model.parameters(), parts, strict=True)
    }
    inputs = replace(given, architecture=model)
    expected = by_hand(weights, first_images(inputs, trial.workload.batch_size))
    for found in by_lowerings(inputs, trial, WORKER, tmp_path / "work"):
        logits = found["logits"].reshape(expected.shape)
        assert largest_error({"logits": logits}, {"logits": expected}) < TOLERANCE
