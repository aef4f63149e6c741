"""One line of the live table: the runs of a trial so far."""

import pytest
from rich.progress import BarColumn, TextColumn

from suite.report.trial_line import TrialLine, columns, sparkline
from tests.report.made_inference import inferred
from tests.results.test_record import record


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([0.0], "▁"),
        ([100.0, 100.0], "██"),
        ([50.0, 75.0, 100.0], "▁▅█"),
        ([1.0, 9.0], "▁█"),
    ],
)
def test_a_sparkline_goes_from_half_of_the_largest_value_to_the_largest(
    values: list[float], text: str
) -> None:
    assert sparkline(values) == text


def test_the_bar_counts_finished_runs_and_the_part_of_the_current_measurement() -> None:
    line = TrialLine(runs=2)
    assert (line.completed, line.rate, line.state) == (0, "", "waiting")
    assert not line.event({"event": "exchanged"}, "1/2")
    line.event({"event": "started"}, "1/2")
    line.event({"event": "warmup", "samples_per_s": 90.0, "left_s": 8.0}, "1/2")
    line.event({"event": "block", "samples_per_s": 100.0, "left_s": 2.0}, "1/2")
    assert (line.completed, line.state, line.sparkline) == (0.75, "1/2 measuring 2 s", "▇█")
    assert line.rate == "95"  # without an interval, whose bootstrap would disturb the worker
    line.done(record(samples_per_s=98.0), "1/2")
    assert (line.completed, line.rate, line.state) == (1, "98", "1/2 ok")
    line.event({"event": "started"}, "2/2")
    assert (line.sparkline, line.rate) == ("", "98")
    line.done(record(samples_per_s=102.0), "2/2")
    assert (line.completed, line.rate) == (2, "100 ±2.0%")


@pytest.mark.parametrize(("name", "bars", "texts"), [(27, 1, 4), (33, 1, 3), (42, 0, 3)])
def test_a_narrow_terminal_has_fewer_columns(name: int, bars: int, texts: int) -> None:
    found = columns(80, name)
    assert sum(isinstance(each, BarColumn) for each in found) == bars
    assert sum(isinstance(each, TextColumn) for each in found) == texts


def states(scenario: str) -> list[str]:
    """What a line shows after each event of a run of inference."""
    line, found = TrialLine(runs=2, scenario=scenario), []
    for name in ("started", "built", "first_inference", "warmed", "overhead", "rate", "inference"):
        assert line.event({"event": name}, "1/2")
        found.append(line.state.removeprefix("1/2 "))
    return found


def test_a_run_of_inference_has_its_own_phases() -> None:
    assert states("single_stream")[:5] == [
        "building",
        "first call",
        "warm-up",
        "null model",
        "measuring",
    ]
    assert states("server")[4:] == ["rate search", "rate search", "answers"]


def test_a_line_of_latencies_shows_the_median_p50_of_the_finished_runs() -> None:
    line = TrialLine(runs=3, scenario="single_stream")
    line.event({"event": "inference", "samples_per_s": 3000.0}, "1/3")
    assert (line.rate, line.sparkline) == ("", "")
    line.done(inferred(p50_s=270e-6, samples_per_s=9.0), "1/3")
    assert line.rate == "270 µs"
    line.done(inferred(p50_s=280e-6, repeat=1, samples_per_s=9.0), "2/3")
    assert line.rate == "275 µs ±1.8%"
    server = TrialLine(runs=1, scenario="server")
    server.done(inferred("server", rate_per_s=750.0), "1/1")
    assert server.rate == "750"
