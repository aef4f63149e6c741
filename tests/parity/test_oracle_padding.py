"""The reference's attention and mean without padding, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from suite.models.architecture import Architecture
from suite.models.layers import Dense
from suite.models.sequences import Embedding, MeanToken, SelfAttention
from suite.parity.reference import TOLERANCE
from suite.paths import WORKER
from suite.protocol.plan import Plan
from tests.conftest import made_up
from tests.parity.test_oracle import Values, by_lowerings, largest_error

LENGTH, FEATURES, PADDING = 24, 4, 1  # the length and the padding of every_padded
MODEL = Architecture(
    name="oracle_padding",
    input_shape=(LENGTH,),
    classes=10,
    layers=(
        Embedding(name="embedding", vocabulary=64, features=FEATURES),
        SelfAttention(name="both", features=FEATURES, heads=1, bias=False, padding_id=PADDING),
        SelfAttention(
            name="before", features=FEATURES, heads=1, bias=False, causal=True, padding_id=PADDING
        ),
        MeanToken(name="mean", padding_id=PADDING),
        Dense(name="classes", in_features=FEATURES, out_features=10),
    ),
)
# Padding in all places: at the end, at the start, inside, nowhere, and of all.
PLACES = ((20, 24), (0, 5), (8, 10), (0, 0), (0, 24))


def attended(tokens: NDArray[np.int32], member: int, causal: bool) -> list[int]:
    """The members to which a member attends."""
    known = list(range(member + 1 if causal else LENGTH))
    return [each for each in known if tokens[each] != PADDING] or known


def of_sequence(weights: dict[str, Values], tokens: NDArray[np.int32]) -> Values:
    x = weights["embedding.weight"][tokens]
    for name in ("both", "before"):
        queries, keys, values = np.split(x @ weights[f"{name}.in_weight"].T, 3, axis=1)
        mixed = np.empty_like(x)
        for member, query in enumerate(queries):
            near = attended(tokens, member, name == "before")
            shares = np.exp(keys[near] @ query / np.sqrt(FEATURES))
            mixed[member] = shares / shares.sum() @ values[near]
        x = mixed @ weights[f"{name}.out_weight"].T
    mean = x[attended(tokens, 0, causal=False)].mean(axis=0)
    return mean @ weights["classes.weight"].T + weights["classes.bias"]


@pytest.mark.verify
def test_both_lowerings_leave_padding_out(quick: Callable[..., Plan], tmp_path: Path) -> None:
    trial = quick("pytorch").trials[0]
    workload = trial.workload.model_copy(
        update={"model": "every_padded", "dataset": "synthetic", "batch_size": len(PLACES)}
    )
    given = made_up(workload, tmp_path)
    generator = np.random.default_rng(5)
    flat = generator.normal(0.1, 0.6, MODEL.parameter_count).astype(np.float32)
    np.save(given.weights, flat)
    stops = np.cumsum([each.size for each in MODEL.parameters()])
    weights = {
        each.name: part.reshape(each.shape)
        for each, part in zip(
            MODEL.parameters(), np.split(flat.astype(np.float64), stops[:-1]), strict=True
        )
    }
    chosen = np.load(given.order)[0, : len(PLACES)]
    path = given.data / "train_inputs.npy"
    inputs = np.load(path)
    inputs[chosen] = generator.integers(2, 64, (len(PLACES), LENGTH))
    for sample, (start, stop) in zip(chosen, PLACES, strict=True):
        inputs[sample, start:stop] = PADDING
    np.save(path, inputs)
    expected = np.stack([of_sequence(weights, inputs[sample]) for sample in chosen])
    changed = replace(given, architecture=MODEL)
    trial = replace(trial, workload=workload)
    for found in by_lowerings(changed, trial, WORKER, tmp_path / "work"):
        logits = found["logits"].reshape(expected.shape)
        assert largest_error({"logits": logits}, {"logits": expected}) < TOLERANCE
