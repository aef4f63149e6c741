"""The ladder: which frameworks are on it, and what is compared with what."""

import json
from pathlib import Path

import pytest

from suite.report import ladder, ladder_table
from suite.report.numbers import MICROSECONDS
from suite.report.summary import TrialSummary, summarise
from suite.results import store
from suite.results.record import Parity
from tests.report.made_inference import inferred
from tests.results.test_record import record


def rungs(place: Path) -> dict[str, ladder.Rung]:
    names = {"pytorch": (3, 21, 8), "mxnet": (1, 90, 70), "keras": (4, 14, 6), "jax": (3, 20, 8)}
    written = {
        name: {"rung": rung, "script": "x", "inference_lines": lines, "training_lines": training}
        for name, (rung, lines, training) in names.items()
    }
    (place / store.LADDER).write_text(json.dumps(written))
    return ladder.read(place)


def trials() -> list[TrialSummary]:
    """PyTorch in two variants, MXNet, an unproven JAX, and training in PyTorch."""
    unproven = Parity(proven=False, reason="not compared")
    return summarise(
        [
            inferred(p50_s=300e-6, trial_id="slow"),
            inferred(p50_s=200e-6, trial_id="fast", variant="compiled"),
            inferred(p50_s=100e-6, trial_id="mxnet", framework="mxnet", variant="hybrid"),
            inferred(p50_s=10e-6, trial_id="jax", framework="jax", parity=unproven),
            inferred("multi_stream", p50_s=10e-6, trial_id="multi"),
            inferred("offline", trial_id="offline", framework="mxnet", samples_per_s=9000.0),
            record(trial_id="train", samples_per_s=5000.0),
        ]
    )


def test_rows_are_from_the_lowest_rung_with_the_best_proven_trial(tmp_path: Path) -> None:
    lowest, other = ladder.rows(trials(), rungs(tmp_path))
    assert (lowest.trial.record.trial_id, lowest.over_lowest, lowest.lines) == ("mxnet", 0, 90)
    assert (other.trial.record.trial_id, other.rung, other.training_lines) == ("fast", 3, 8)
    assert other.over_lowest == pytest.approx(1.0) and other.latency_s == pytest.approx(200e-6)
    assert (lowest.training_samples_per_s, other.training_samples_per_s) == (None, 5000)
    assert (lowest.offline_samples_per_s, other.offline_samples_per_s) == (9000, None)
    cells = ladder.cells_of(other, "PyTorch compiled", MICROSECONDS)
    assert [*cells.values()] == [
        *("3", "PyTorch compiled", "200", "-", "400", "+100%", "0.5%", "-", "5,000", "21", "8")
    ]
    text = ladder_table.markdown([lowest, other]).splitlines()
    assert text[0] == "### the ladder: LeNet, one image at a time, latencies in µs"
    assert len(text) == 6 and text[2].startswith("| rung | framework | p50 |")


def test_a_run_without_the_file_or_with_a_damaged_one_has_no_ladder(tmp_path: Path) -> None:
    assert ladder.read(tmp_path) == {}
    (tmp_path / store.LADDER).write_text('{"pytorch": 21}')
    assert ladder.read(tmp_path) == {}
    assert ladder.rows(trials(), {}) == []
