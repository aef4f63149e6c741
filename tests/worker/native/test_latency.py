"""The statistics of the worker's own stamps, compared with NumPy's and with LoadGen's."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog
from suite.paths import WORKER


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program latency.cpp; the header of nlohmann is in oneDNN's environment."""
    python = VenvEngine().prepare(catalog.framework("onednn"), print).python
    (header,) = python.parent.parent.glob("lib/python3*/site-packages/nlohmann_json/include")
    output = tmp_path_factory.mktemp("latency") / "latency"
    native = WORKER / "native"
    sources = [Path(__file__).with_name("latency.cpp"), native / "latency.cpp"]
    command = ["g++", "-std=c++17", "-I", str(native), "-isystem", str(header)]
    subprocess.run([*command, *map(str, sources), "-o", str(output)], check=True)
    return output


def run(program: Path, *arguments: object, text: str = "") -> object:
    command = [str(program), *map(str, arguments)]
    reply = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return json.loads(reply.stdout)


@pytest.mark.parametrize(
    ("queries", "percentile", "beyond"),
    [
        (63, 0.9, 0),  # LoadGen: at least 64 queries are needed for an estimate of p90
        (64, 0.9, 1),
        (700, 0.9, 51),  # LoadGen's estimate of p90 was the 51st of 700 latencies from above
        (700, 0.99, 1),
        (2252, 0.9, 192),
    ],
)
def test_the_early_stopping_estimate_is_that_of_loadgen(
    program: Path, queries: int, percentile: float, beyond: int
) -> None:
    assert run(program, queries, percentile) == beyond


def test_the_percentiles_are_values_of_the_sorted_latencies(program: Path) -> None:
    latencies = np.random.default_rng(1).permutation(np.arange(1, 1001) / 1000)
    found = run(program, text=" ".join(map(str, latencies)))
    assert isinstance(found, dict)
    assert found["percentiles_s"]["50"] == 0.501  # LoadGen takes the value at n times p
    assert found["percentiles_s"]["99.9"] == 1.0
    assert (found["min_s"], found["max_s"]) == (0.001, 1.0)
    assert found["mean_s"] == pytest.approx(0.5005)
    assert set(found["early_stopping_s"]) == {"90", "99"}


def test_few_latencies_have_no_early_stopping_estimate(program: Path) -> None:
    found = run(program, text="0.1 0.2 0.3")
    assert isinstance(found, dict) and found["early_stopping_s"] == {}
