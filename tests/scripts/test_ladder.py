"""The ladder's scripts: all compute the same as LeNet in numpy and as each other."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.models.lenet import lenet
from suite.paths import MANIFESTS, REPOSITORY
from tests.conftest import SMOKE, each_framework

LADDER = REPOSITORY / "scripts" / "ladder"
RUNGS = runpy.run_path(str(LADDER / "rungs.py"))
COMMON = runpy.run_path(str(LADDER / "common.py"))
INFERENCE_ONLY = ("onnxruntime", "openvino")
STEPS, CALLS = 5, 20

Result = dict[str, Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Weights, inputs and labels, made up. Biases are not zero, so that none can be left out."""
    folder, generator = tmp_path_factory.mktemp("files"), np.random.default_rng(5)
    weights = [generator.normal(0, each.std or 0.1, each.size) for each in lenet().parameters()]
    arrays = {
        "weights": np.concatenate(weights).astype(np.float32),
        "inputs": generator.normal(size=(128, 1, 28, 28)).astype(np.float32),
        "labels": generator.integers(0, 10, 128, dtype=np.int32),
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return [folder / f"{name}.npy" for name in arrays]


@pytest.fixture(scope="module")
def result(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """What the script of a framework prints; each runs once."""
    found: dict[str, Result] = {}

    def run(name: str) -> Result:
        if name not in found:
            command = RUNGS["command"](name, python_of(name), tmp_path_factory.mktemp(name))
            options = [*map(str, files), "--infer", str(CALLS), "--train", str(STEPS)]
            done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            found[name] = json.loads(done.stdout)
        return found[name]

    return run


def python_of(name: str) -> Path:
    """The interpreter of a framework; the test is skipped where the suite does not have it."""
    if name not in catalog.frameworks():
        pytest.skip(f"the suite has no framework {name}")
    python = VenvEngine().prepare(catalog.framework(name), lambda text: None).python
    assert python
    return python


def logits(files: list[Path], samples: int) -> np.ndarray:
    """LeNet's logits of the first inputs, in float64."""
    flat, images, _ = (np.load(file) for file in files)
    sizes = [each.size for each in lenet().parameters()]
    parts = np.split(flat.astype(np.float64), np.cumsum(sizes)[:-1])
    shapes = [each.shape for each in lenet().parameters()]
    w1, b1, w2, b2, w3, b3, w4, b4 = map(np.reshape, parts, shapes)
    x = pooled(convolved(images[:samples].astype(np.float64), w1, b1))
    x = pooled(convolved(x, w2, b2)).reshape(samples, -1)
    return np.maximum(x @ w3.T + b3, 0) @ w4.T + b4


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
    return np.einsum("nihwyx,oiyx->nohw", windows, weight, optimize=True) + bias[:, None, None]


def pooled(x: np.ndarray) -> np.ndarray:
    samples, channels, height, width = x.shape
    return x.reshape(samples, channels, height // 2, 2, width // 2, 2).max((3, 5))


@pytest.mark.parametrize("name", each_framework(RUNGS["NAMES"]))
def test_all_scripts_compute_the_same(
    name: str, result: Callable[[str], Result], files: list[Path]
) -> None:
    found = result(name)
    np.testing.assert_allclose(found["logits"], logits(files, 8), atol=1e-4)
    assert found["calls"] == CALLS
    assert 0 < found["p50_s"] <= found["p99_s"]
    if name not in INFERENCE_ONLY:
        assert len(found["losses"]) == STEPS
        np.testing.assert_allclose(found["losses"], result(SMOKE)["losses"], rtol=1e-4)
        assert found["samples_per_s"] > 0


def test_the_first_loss_is_the_mean_cross_entropy(
    result: Callable[[str], Result], files: list[Path]
) -> None:
    scores, labels = logits(files, 64), np.load(files[2])[:64]
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(64), labels]
    np.testing.assert_allclose(result(SMOKE)["losses"][0], losses.mean(), rtol=1e-4)


def test_the_shapes_are_those_of_the_suite() -> None:
    assert COMMON["SHAPES"] == {each.name: each.shape for each in lenet().parameters()}


def test_the_counts_are_current() -> None:
    assert (MANIFESTS / "ladder.json").read_text(encoding="utf-8") == RUNGS["document"](), (
        "make docs"
    )


def test_comments_and_the_start_are_not_counted() -> None:
    text = '"""What it is."""\n\nmodel = 1\n\n# Training\nstep = [\n    2,\n]\n\nrun(model, step)\n'
    assert RUNGS["counts"](text, Path("lenet_made_up.py")) == (1, 2)
    assert RUNGS["counts"]("model = 1\n\nrun(model)\n", Path("lenet_made_up.py")) == (1, None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(0, "LeNet has 431080 weights"), (1, "64 images of 1 x 28 x 28 or more")],
)
def test_wrong_files_are_refused(files: list[Path], wrong: int, message: str) -> None:
    given = [str(files[2]) if place == wrong else str(file) for place, file in enumerate(files)]
    code = "import common; common.options()"
    done = subprocess.run(
        [sys.executable, "-c", code, *given],
        cwd=LADDER,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
