"""The tables of inference, for the terminal and as Markdown."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from suite.report import as_json, best_table, markdown, rates_table, run_data
from suite.report.cells import cells_of
from suite.report.summary import TrialSummary, summarise
from suite.results import store
from suite.results.record import Record
from tests.report.made_inference import inferred, made_inference, offline, untried


def lines(records: list[Record], width: int = 150) -> list[str]:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(summarise(records), width))
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def runs(p50_s: float, **changes: object) -> list[Record]:
    return [
        inferred(p50_s=p50_s * (1 + 0.01 * repeat), repeat=repeat, **changes) for repeat in range(3)
    ]


def test_latencies_are_in_one_unit_and_the_lowest_p50_is_first() -> None:
    jax: dict[str, object] = {"framework": "jax", "variant": "jit", "trial_id": "jax"}
    shown = lines([*runs(2e-3, **jax), *runs(300e-6)], 160)
    assert shown[0] == (
        "lenet on mnist, infer, batch 1, float32, single_stream, cpu (2 cores), "
        "latencies in µs, track equal"
    )
    assert shown[2] == (
        "framework variant p50 ± CI runs vs best p90 p95 p99 p99.9 p99 estimate samples/s "
        "first inference memory overhead same work status"
    )
    assert shown[4].startswith("PyTorch eager 303 ±1.0% 3 1.00 333 364 606 2,424 757 2,970 0.25 s")
    (row, _) = cells_of(summarise([*runs(2e-3, **jax), *runs(300e-6)]), None)
    wide = ("p95", "mean", "p90 estimate", "p99 estimate", "build", "first inference")
    assert [row[name] for name in wide] == ["364", "333", "364", "757", "0.05 s", "0.25 s"]
    assert shown[5].startswith("JAX/Flax jit 2,020 ±1.0% 3 6.67 2,222 2,424 4,040")
    assert lines(runs(2e-3))[0].endswith("latencies in ms, track equal")


def test_the_table_of_a_server_has_the_rate_that_holds_and_its_bound() -> None:
    shown = lines([inferred("server", 1.5e-3, rate_per_s=512.0)])
    assert "server within 10 ms" in shown[0] and "latencies in ms" in shown[0]
    assert shown[2].startswith("framework variant queries/s ± CI runs vs best bound p99 build")
    assert shown[4].startswith(
        "PyTorch eager 512 - 1 1.00 10.0 3.00 0.05 s 0.25 s 250 MiB 0.1% yes ok"
    )


def test_each_configuration_has_a_table_of_its_batch_sizes_with_the_knee() -> None:
    jax: dict[str, object] = {"framework": "jax", "variant": "jit"}
    more = [
        untried("oom", 8, "the worker ran out of memory", trial_id="o"),
        untried("skipped", 16, "batch 8 did not fit into memory", trial_id="s"),
        untried("skipped", 32, "batch 8 did not fit into memory", trial_id="t"),
    ]
    shown = lines([*offline({1: 50.0, 2: 97.0, 4: 100.0}), *more, *offline({1: 70.0}, **jax)])
    title = "lenet on mnist, infer, float32, offline, cpu (2 cores)"
    first, second = shown.index(f"PyTorch eager: {title}"), shown.index(f"JAX/Flax jit: {title}")
    assert first < second
    assert shown[first + 4].startswith("1 50 - 1 0.50 0.05 s 0.25 s")
    assert shown[first + 5].startswith("2 97 - 1 0.97 knee 0.05 s 0.25 s")
    assert shown[first + 6].startswith("4 100 - 1 1.00 0.05 s 0.25 s")
    assert shown[first + 7] == ""  # no row of a batch that did not fit
    assert "pytorch:eager, batch 8: the worker ran out of memory" in shown
    assert "pytorch:eager, batch 16, 32: batch 8 did not fit into memory" in shown


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_nothing_is_cut_at_any_width(tmp_path: Path, width: int) -> None:
    records = store.read(made_inference(tmp_path))
    failed = inferred(status="failed", repeat=9, framework="jax", trial_id="jax-single_stream")
    found = summarise([*records, failed])
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(found, width), best_table.render(found, width))
    text = captured.get()
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for part in ("p50", "p99", "queries/s", "knee", "± CI", "variant"):
        assert part in text


def test_a_training_workload_of_the_same_run_keeps_its_own_table() -> None:
    from tests.report.test_reports import some_records

    shown = lines([*some_records(), inferred()])
    assert any(line.startswith("lenet on mnist, train, batch 64") for line in shown)
    assert any("single_stream" in line for line in shown)


def test_markdown_has_one_table_for_scenario_offline_and_one_for_latencies(tmp_path: Path) -> None:
    jax: dict[str, object] = {"framework": "jax", "variant": "jit"}
    made = [*offline({1: 50.0, 2: 97.0}), *offline({1: 70.0}, **jax), inferred()]
    lines = markdown.of_run(run_data.of(tmp_path / "20261124-120000-quick", made)).splitlines()
    headings = [line for line in lines if line.startswith("### lenet")]
    assert [" offline," in line for line in headings].count(True) == 1 and len(headings) == 2
    assert any("single_stream" in line and line.endswith("latencies in µs") for line in headings)
    first = next(n for n, line in enumerate(lines) if " | batch | samples/s | ± CI " in line)
    assert lines[first : first + 6].index("") == 5  # three rows below the heading
    (of_jax,) = (line for line in lines[first : first + 5] if "JAX" in line)
    assert " | 70 | - | 1 | 0.72 | " in of_jax  # compared with all rows of the table


def test_one_batch_size_of_scenario_offline_is_one_table_for_all_configurations() -> None:
    jax: dict[str, object] = {"framework": "jax", "variant": "jit"}
    shown = lines([*offline({1: 50.0}), *offline({1: 70.0}, **jax)])
    assert shown[0] == "lenet on mnist, infer, float32, offline, cpu (2 cores), track equal"
    assert shown[2].startswith("framework variant batch samples/s ± CI runs vs best build")
    assert shown[4].startswith("JAX/Flax jit 1 70 - 1 1.00")
    assert shown[5].startswith("PyTorch eager 1 50 - 1 0.71")


def best_rows(found: list[TrialSummary]) -> list[str]:
    console = Console(width=140, no_color=True)
    with console.capture() as captured:
        console.print(best_table.render(found, 140))
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def test_the_best_rows_of_inference_are_those_of_each_scenario() -> None:
    slow = inferred(p50_s=4e-4, variant="compiled", trial_id="slow", samples_per_s=1e6)
    found = summarise([inferred(), slow, *offline({1: 50.0, 2: 97.0})])
    shown = best_rows(found)
    assert "lenet single_stream cpu PyTorch eager equal 1 300 3,000 250 MiB" in shown
    assert "lenet offline cpu PyTorch eager equal 2 - 97 250 MiB" in shown
    assert not any("compiled" in line for line in shown)


def test_json_has_the_latencies_of_each_trial() -> None:
    found = summarise([inferred(), *offline({1: 50.0})])
    trials = json.loads(as_json.render("r", found, []))["trials"]
    by_scenario = {each["workload"]["scenario"]: each for each in trials}
    latency = by_scenario["single_stream"]["inference"]
    assert latency["p50_s"] == {"median": 300e-6, "ci_low": None, "ci_high": None}
    assert latency["percentiles_s"]["99"] == 600e-6 and latency["queries"] == 2500
    assert latency["overhead_share"] == pytest.approx(1 / 300)
    assert by_scenario["offline"]["inference"]["p50_s"] is None
    assert by_scenario["offline"]["knee"] is True
