"""How LoadGen drives a model, with a function of the input as the model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.protocol import trial_file
from tests.worker.conftest import in_environment

SAMPLES = 40
# The answer to a sample is the first row of its pixels. A call counts its samples; from call
# FAILS on, it raises. A call takes at least CALL_S.
DRIVE = """
import json, sys, threading, time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
import numpy as np
from suite.worker import inference, server_rate
from suite.worker.interleaving import Turns
from suite.worker.protocol import Trial

folder, mode, scenario, batch_size, samples, fails, shared, call_s = sys.argv[1:]
trial = Trial.read(Path(folder))
measure = trial.measure | {
    "block_s": 0.01, "interleaved_block_s": 0.002, "min_query_s": 0.05, "max_query_s": 1.0,
    "min_queries": 200,
}
trial = replace(
    trial, mode=mode, scenario=scenario, batch_size=int(batch_size), query_samples=int(samples),
    latency_bound_s=0.05 if scenario == "server" else None, measure=measure,
)
sizes = []

class Model:
    def predict(self, inputs):
        sizes.append(len(inputs))
        if len(sizes) >= int(fails):
            raise RuntimeError("the model is broken")
        time.sleep(float(call_s))
        return np.ascontiguousarray(inputs.reshape(len(inputs), -1)[:, -400:-390])

other_turns = 0

def take_turns():
    global other_turns
    while not done.is_set():
        with Turns(Path(shared)):
            time.sleep(0.05)
        other_turns += 1

done = threading.Event()
other = threading.Thread(target=take_turns)
server_rate.STEP_S, server_rate.STEP_QUERIES, inference.OVERHEAD_S = 0.05, 50, 0.05
events = []
emit = lambda kind, **values: events.append({"event": kind, **values})
error = None
try:
    if mode == "infer":
        with Turns(Path(shared)) if shared else nullcontext() as turns:
            if turns:
                other.start()
            report_memory = lambda: emit("memory")
            inference.infer(trial, Model(), "NCHW", emit, turns, report_memory)
        done.set()
    else:
        inference.parity(trial, Model(), "NCHW", emit)
except RuntimeError as raised:
    error = str(raised)
if other.ident:
    other.join()
found = {"sizes": sorted(set(sizes)), "error": error, "other_turns": other_turns}
print(json.dumps({"events": events, **found}))
"""


def drive(
    folder: Path,
    mode: str,
    scenario: str,
    batch_size: int,
    *,
    fails: int = 10**9,
    shared: Path | str = "",
    call_s: float = 0.0,
) -> dict[str, Any]:
    numbers = (str(batch_size), str(SAMPLES), str(fails))
    arguments = (str(folder), mode, scenario, *numbers, str(shared), str(call_s))
    text = in_environment("pytorch", DRIVE, *arguments, folder=folder.parent)
    found: dict[str, Any] = json.loads(text)
    return found


def expected(folder: Path) -> np.ndarray:
    """The answer to each sample of the library."""
    trial = json.loads((folder / "trial.json").read_text())
    images = np.load(Path(trial["paths"]["data"]) / "test_inputs.npy")[:SAMPLES]
    (mean,), (std,) = trial["normalize"]["mean"], trial["normalize"]["std"]
    rows = images.reshape(len(images), -1)[:, -400:-390]
    return ((rows / 255 - mean) / std).astype(np.float32)


@pytest.mark.parametrize(
    ("scenario", "batch_size"),
    [("single_stream", 1), ("multi_stream", 8), ("offline", 7), ("server", 1)],
)
def test_every_scenario_times_queries_and_saves_their_answers(
    trial_folder: Path, scenario: str, batch_size: int
) -> None:
    found = drive(trial_folder, "infer", scenario, batch_size)
    assert found["error"] is None
    assert found["sizes"] == [batch_size]  # also the last call of a query that it does not divide
    kinds = [event["event"] for event in found["events"]]
    assert kinds[:4] == ["first_inference", "warmed", "memory", "overhead"]
    assert kinds[-2:] == ["inference", "answers"]
    assert ("rate" in kinds) == (scenario == "server")
    timed = found["events"][-2]
    assert timed["scenario"] == scenario and timed["samples"] >= 200
    assert timed["loadgen"].startswith("mlcommons-loadgen ")
    latencies = [timed["percentiles_s"].get(each, 0) for each in ("50", "90", "99", "99.9")]
    assert latencies == sorted(latencies)
    assert all(latencies) == (scenario != "offline")
    results = trial_folder / "results" / "closing"
    samples = np.load(results / "answers_samples.npy")
    assert len(samples) == found["events"][-1]["samples"] and len(set(samples.tolist())) > 20
    logits = np.load(results / "answers_logits.npy")
    np.testing.assert_allclose(logits, expected(trial_folder)[samples], rtol=1e-6)


def test_the_rate_of_offline_is_over_the_whole_duration(trial_folder: Path) -> None:
    """Its one query has many calls, of which LoadGen's mean latency is half the duration."""
    call_s = 0.002
    timed = drive(trial_folder, "infer", "offline", 4, call_s=call_s)["events"][-2]
    assert timed["samples_per_s"] < 4 / call_s
    assert timed["samples_per_s"] * timed["duration_s"] > 0.9 * timed["samples"]


def test_the_time_of_waiting_for_a_turn_is_in_no_latency(
    trial_folder: Path, tmp_path: Path
) -> None:
    shared = trial_file.make_interleaving(tmp_path / "interleaving", 2).folder
    found = drive(trial_folder, "infer", "single_stream", 1, shared=shared)
    timed = found["events"][-2]
    assert found["other_turns"] > 1  # of 0.05 s each
    assert timed["queries"] >= 200 and timed["percentiles_s"]["99"] < 0.05
    assert timed["duration_s"] > 0.05


def test_mode_parity_answers_each_sample_once(trial_folder: Path) -> None:
    found = drive(trial_folder, "parity", "offline", 7)
    assert found["events"] == [{"event": "answered", "samples": SAMPLES}]
    answers = np.load(trial_folder / "results" / "inference.npy")
    np.testing.assert_allclose(answers, expected(trial_folder), rtol=1e-6)


@pytest.mark.parametrize("scenario", ["single_stream", "server"])
def test_an_error_of_the_model_ends_the_run(trial_folder: Path, scenario: str) -> None:
    found = drive(trial_folder, "parity", scenario, 1, fails=20)
    assert found["error"] == "the model is broken" and found["events"] == []
