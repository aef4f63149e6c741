"""Every figure of a run: its data, its text, and that it can be drawn."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suite.report import figures, run_data
from suite.report.figures import render, runs
from suite.report.figures.figure import Figure, name_of, whole_numbers
from suite.report.figures.parity import tensors
from suite.report.run_data import RunData
from tests.report.made_run import made_run
from tests.results.test_record import record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return run_data.read(made_run(tmp_path_factory.mktemp("run")))


def of(run: RunData, kind: str) -> list[Figure]:
    make = figures.KINDS[kind]
    return list(make(run))


def values(figure: Figure) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = figure.spec["data"]["values"]
    return found


def test_a_run_has_figures_of_every_kind_with_names_of_their_own(run: RunData) -> None:
    found = figures.all_of(run)
    assert Counter(figure.name.split("-")[0] for figure in found) == {
        "rates": 3,
        "loss": 1,
        "accuracy": 1,
        "blocks": 8,
        "telemetry": 8,
        "ratios": 1,
        "scaling": 1,
        "parity": 1,
    }
    assert len({figure.name for figure in found}) == len(found)
    assert all(figure.caption and figure.description and figure.about for figure in found)


def test_rates_have_the_interval_the_share_and_the_proof_of_each_trial(run: RunData) -> None:
    first = values(of(run, "rates")[0])
    assert [row["framework"] for row in first][:3] == ["tensorflow", "pytorch", "pytorch"]
    assert all(row["low"] < row["median"] < row["high"] and row["proven"] for row in first)
    assert first[0]["text"].startswith("TensorFlow graph: 6,") and "MFU 30%" in first[0]["text"]


def test_blocks_start_at_zero_and_mark_warm_up(run: RunData) -> None:
    rows = values(of(run, "blocks")[0])
    assert len(rows) == 4 * 12 and sum(row["warmup"] for row in rows) == 4 * 4
    assert rows[0]["time_s"] == pytest.approx(0.05) and rows[11]["time_s"] == pytest.approx(1.15)


def test_telemetry_has_memory_and_the_increase_of_cpu_time(run: RunData) -> None:
    rows = values(of(run, "telemetry")[0])
    kinds = {row["kind"] for row in rows}
    assert kinds == {"memory (MiB)", "busy cores"}
    cores = {round(row["value"], 6) for row in rows if row["kind"] == "busy cores"}
    assert cores == {1.8}


def test_telemetry_of_a_gpu_has_its_memory_and_power() -> None:
    gpu = {"used_bytes": 3 * 2**20, "power_w": 250.0}
    samples = [{"monotonic_ns": n * 10**9, "rss_bytes": 2**20, "gpu": gpu} for n in range(3)]
    rows = [*runs._samples(samples, record(device="cuda"))]
    assert {(row["kind"], row["value"]) for row in rows} == {
        ("memory (MiB)", 1.0),
        ("GPU memory (MiB)", 3.0),
        ("GPU power (W)", 250.0),
    }


def test_curves_add_the_durations_of_epochs(run: RunData) -> None:
    rows = values(of(run, "curves")[0])
    of_one = [row for row in rows if row["label"] == "TensorFlow graph" and row["split"] == "test"]
    assert [row["time_s"] for row in of_one] == [10.0, 20.0, 30.0]
    assert [row["epoch"] for row in of_one] == [1, 2, 3]


def test_speed_up_has_one_device_and_several(run: RunData) -> None:
    (figure,) = of(run, "speed-up")
    known = [row for row in values(figure) if row["configuration"] != "ideal"]
    assert [row["devices"] for row in known] == [1, 2]
    assert known[1]["speed_up"] == pytest.approx(3200 / 1900, rel=0.01)


def test_a_tensor_has_its_own_tolerance_where_that_is_wider(run: RunData) -> None:
    found = {name: row for name, *row in tensors(run.certificates["jax-jit-equal"])}
    assert found["loss"] == pytest.approx([2e-6, 1e-3, 2e-3])
    assert found["logits"] == pytest.approx([1e-6, 1e-4, 1e-2])
    assert next(iter(found)) == "gradients layer7"


def test_every_figure_has_its_data_and_names_no_address(run: RunData) -> None:
    for figure in figures.all_of(run):
        assert "url" not in str({**figure.spec, "$schema": None}), figure.name


def test_every_figure_inside_a_page_is_one_image_in_the_colors_of_the_page(run: RunData) -> None:
    for figure in figures.all_of(run):
        text = render.inline_svg(figure)
        assert text.startswith('<svg role="img" aria-label="') and "style=" not in text
        assert "currentColor" in text and "#1b1f24" not in text, figure.name
        assert text.count("role=") == 1 and "http" not in text.replace("http://www.w3.org", "")
        assert len(text) < 40_000, figure.name


def test_a_process_with_few_addresses_says_so_in_place_of_a_figure() -> None:
    """V8 would end it; batch systems set such limits."""
    code = (
        "from suite.report.figures import render; from suite.report.figures.figure import Figure;"
        "print(render.inline_svg(Figure(name='a', about='', spec={}, caption='', description='D')))"
    )
    command = f'ulimit -v 6000000; exec "{sys.executable}" -c "$0"'
    done = subprocess.run(["sh", "-c", command, code], capture_output=True, text=True, check=True)
    assert "<p>D figures cannot be drawn: ulimit" in done.stdout


def test_marks_of_a_framework_can_be_found_in_the_page(run: RunData) -> None:
    text = render.inline_svg(of(run, "rates")[0])
    found = Counter(re.findall(r'data-framework="(\w+)"', text))
    assert found["tensorflow"] == 3  # its interval, its median and its text
    assert found.keys() == {"tensorflow", "pytorch", "jax", "mxnet"}


def test_text_is_never_rounded(run: RunData) -> None:
    text = render.inline_svg(of(run, "ratios")[0])
    assert re.search(r">PyTorch eager: 0\.\d\d, slower<", text)


def test_figures_are_written_to_files_of_their_names(run: RunData, tmp_path: Path) -> None:
    found = of(run, "rates")
    written = render.write_files(found, tmp_path / "new" / "figures")
    assert [path.stem for path in written] == [figure.name for figure in found]
    assert all(path.read_text().startswith("<svg") for path in written)


def test_batch_sizes_of_one_workload_are_in_one_figure(run: RunData) -> None:
    assert of(run, "batch-sizes") == []
    larger = [
        each.model_copy(
            update={
                "workload": each.workload.model_copy(update={"batch_size": 128}),
                "trial_id": f"{each.trial_id}-128",
            }
        )
        for each in run.records
        if each.device == "cpu"
    ]
    (figure,) = of(run_data.of(run.folder, [*run.records, *larger]), "batch-sizes")
    assert (
        figure.about == "lenet on mnist, train, float32, sgd 0.01, input from host, cpu (2 cores)"
    )
    rows = figure.spec["data"]["values"]
    assert {(row["batch"], row["label"]) for row in rows} == {
        (size, run.label(trial))
        for size in (64, 128)
        for trial in run.trials
        if trial.record.device == "cpu" and trial.values
    }
    assert "knee" not in figure.caption and render.svg(figure).startswith("<svg")


def test_names_are_valid_as_file_names() -> None:
    assert name_of("rates", "LeNet on mnist, sgd 0.01 (2 cores)") == (
        "rates-lenet-on-mnist-sgd-0-01-2-cores"
    )


def test_an_axis_of_many_epochs_has_few_ticks() -> None:
    assert whole_numbers([3, 1, 2, 1]) == [1, 2, 3]
    assert len(whole_numbers(range(1, 91))) <= 10
