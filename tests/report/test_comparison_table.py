"""A comparison as a table and as JSON."""

import json

from rich.console import Console

from suite.report import comparison_table
from suite.report.comparison import Comparisons, compare
from suite.report.summary import summarise
from tests.report.made_inference import offline
from tests.report.test_comparison import latencies, slowed, trials


def shown(found: Comparisons) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(comparison_table.render(found))
    return captured.get()


def test_a_row_has_both_rates_the_ratio_its_interval_and_the_verdict() -> None:
    text = shown(compare(trials(), trials(slowed(0.1), run_id="s")))
    row = next(line.split() for line in text.splitlines() if "pytorch:eager" in line)
    assert row[:8] == ["pytorch:eager", "100", "|", "90.2", "4", "|", "4", "0.900"]
    assert row[-2:] == ["0.029", "slower"]
    assert "Mann-Whitney" in text and max(map(len, text.splitlines())) <= 120


def test_two_frameworks_share_a_row() -> None:
    jax = trials(framework="jax", variant="jit", trial_id="jax-jit")
    assert "pytorch:eager | jax:jit" in shown(compare(trials(), jax, across=True))


def test_with_too_few_runs_the_table_names_the_minimum_and_the_option() -> None:
    text = shown(compare(trials((100.0, 101.0)), trials((50.0, 51.0), run_id="s")))
    assert "too few runs: a difference needs 4 on both sides" in text and "--repeats 10" in text


def test_json_has_the_values_of_the_table() -> None:
    found = compare(trials(), [*trials(slowed(0.1), run_id="s"), *trials(batch_size=1)])
    values = json.loads(comparison_table.as_json(found))
    (pair,) = values["pairs"]
    assert pair["verdict"] == "slower" and pair["difference"]["p_value"] < 0.05
    assert pair["samples_per_s"] == {"a": 100.25, "b": 90.225}
    assert "batch_size (1, 64)" in values["unmatched"][0]


def test_a_change_of_latencies_is_said_in_words_with_its_unit() -> None:
    a = latencies([300e-6, 301e-6, 299e-6, 300e-6])
    slower = latencies([315e-6, 316e-6, 314e-6, 315e-6], run_id="s")
    text = shown(compare(a, slower))
    assert "pytorch:eager, lenet, single_stream: p50 latency 5.0 % higher (slower)" in text
    row = next(line.split() for line in text.splitlines() if line.startswith(" pytorch:eager"))
    assert row[1:8] == ["300", "|", "315", "µs", "4", "|", "4"]
    assert "p50 latency 4.8 % lower (faster)" in shown(compare(slower, a))
    assert "% higher" not in shown(compare(a, a))
    (pair,) = json.loads(comparison_table.as_json(compare(a, slower)))["pairs"]
    assert pair["in_words"] == "p50 latency 5.0 % higher (slower)"
    assert (pair["metric"], pair["measured"]["a"]) == ("p50_s", 300e-6)


def test_batch_sizes_of_scenario_offline_have_tables_of_their_own() -> None:
    found = summarise(offline({1: 50.0, 2: 90.0}))
    text = shown(compare(found, found))
    assert "batch 1, float32, offline" in text and "batch 2, float32, offline" in text
