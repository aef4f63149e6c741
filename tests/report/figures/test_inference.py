"""The figures of inference: percentiles, throughput, and the ladder."""

from pathlib import Path
from typing import Any

import pytest

from suite.report import figures, run_data
from suite.report.figures import render
from suite.report.figures.figure import Figure
from suite.report.figures.latency import _ticks
from suite.report.run_data import RunData
from tests.report.made_inference import RATES, SLOWNESS, made_inference


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return run_data.read(made_inference(tmp_path_factory.mktemp("run")))


def of(run: RunData, kind: str) -> list[Figure]:
    make = figures.KINDS[kind]
    return list(make(run))


def values(figure: Figure) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = figure.spec["data"]["values"]
    return found


def test_a_curve_has_every_percentile_of_each_configuration(run: RunData) -> None:
    single, multi, server = of(run, "latency")
    rows = [row for row in values(single) if row["label"] == "PyTorch eager"]
    assert [row["percentile"] for row in rows] == ["50", "90", "95", "97", "99", "99.9"]
    assert [row["nines"] for row in rows][1::3] == pytest.approx([1, 2])
    assert rows[0]["latency"] == pytest.approx(304.5)  # µs: the median of four runs
    assert {row["label"] for row in values(single)} == {
        "PyTorch eager",
        "PyTorch compiled",
        "JAX/Flax jit",
    }
    assert "latencies in ms: PyTorch eager p50 2.03" in multi.description
    assert "server within 10 ms" in server.about


def test_ticks_are_one_two_and_five_around_the_values() -> None:
    assert _ticks([3.1, 40.0]) == [2, 5, 10, 20, 50]
    assert _ticks([100.0, 100.0]) == [100]
    assert _ticks([0.03, 0.21]) == [0.02, 0.05, 0.1, 0.2, 0.5]


def test_the_axis_of_percentiles_names_them(run: RunData) -> None:
    text = render.inline_svg(of(run, "latency")[0])
    assert all(f">{name}<" in text for name in ("50", "90", "95", "99", "99.9"))
    assert ">500<" in text and "latency (µs)" in text


def test_throughput_marks_one_knee_of_each_configuration(run: RunData) -> None:
    (figure,) = of(run, "throughput")
    rows = values(figure)
    assert [row["batch"] for row in rows] == [*RATES] * len(SLOWNESS)
    assert [row["batch"] for row in rows if row["knee"]] == [4] * len(SLOWNESS)
    assert all(row["low"] < row["median"] < row["high"] for row in rows)
    assert [row["place"] for row in rows if row["batch"] == 1] == [0, 1, 0]
    assert "PyTorch eager: knee at batch 4, 9," in figure.description


def test_rates_are_p50_latencies_with_their_interval_but_not_of_scenario_offline(
    run: RunData,
) -> None:
    single, _, server = of(run, "rates")
    first = values(single)[0]
    assert first["median"] == pytest.approx(304.5) and first["low"] == pytest.approx(300)
    assert single.caption.startswith("P50 latency in µs: the median over runs")
    assert "Less is faster" in single.caption and "PyTorch eager: 304 µs" in single.description
    assert values(server)[0]["text"] == "PyTorch eager: 887"
    assert server.caption.startswith("Queries per second")


def test_ratios_of_latencies_say_what_is_faster(run: RunData) -> None:
    found = {figure.about: figure for figure in of(run, "ratios")}
    single = next(each for title, each in found.items() if "single_stream" in title)
    assert "the p50 latency of PyTorch eager" in single.caption
    assert "a ratio below 1 is faster" in single.caption
    texts = [row["text"] for row in values(single)]
    assert texts[-1] == "JAX/Flax jit: 1.30, slower"
    assert ">ratio of p50 latencies<" in render.inline_svg(single)


def test_the_ladder_has_a_bar_for_each_framework_with_its_lines(run: RunData) -> None:
    (figure,) = of(run, "ladder")
    rows = values(figure)
    assert [row["label"] for row in rows] == ["PyTorch eager", "JAX/Flax jit"]
    assert all(row["lines"] > 0 for row in rows)
    assert rows[1]["text"] == "JAX/Flax jit: 396 µs (+30%)"
    assert rows[1]["beside"] == f"{rows[1]['lines']} lines"


def test_every_figure_of_inference_is_drawn_in_the_colors_of_the_page(
    run: RunData, tmp_path: Path
) -> None:
    found = [each for kind in ("latency", "throughput", "ladder") for each in of(run, kind)]
    assert len(found) == 5 and len({each.name for each in found}) == 5
    for figure in found:
        text = render.inline_svg(figure)
        assert "currentColor" in text and "#1b1f24" not in text and len(text) < 40_000
        assert 'data-framework="jax"' in text
