"""The page of a run: what it says, and that it allows nothing but what it holds."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from suite.report import run_data
from suite.report.html import answer, details, page
from suite.report.run_data import RunData
from suite.results import certificate, store
from suite.results.blocks import Block, Blocks
from suite.results.record import Parity, Record
from tests.report.made_inference import made_inference
from tests.report.made_run import made_run
from tests.results.test_record import record

SECTIONS = ["answer", "training", "runs", "comparison", "scaling", "parity"]
SECTIONS += ["machine", "failures"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return run_data.read(made_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def text(run: RunData) -> str:
    return page.html(run)


def section(text: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)
    assert found, name
    return found[0]


def test_the_page_begins_with_the_title_of_its_suite_the_date_and_the_machine(
    tmp_path: Path, run: RunData
) -> None:
    header = page.html(replace(run, title="What trains fastest")).split("</header>")[0]
    assert "<h1>What trains fastest</h1>" in header
    assert "2026-11-24 12:00 on A made-up processor, 2 cores, engine venv." in header
    assert page.html(run).count("<h1>Suite quick</h1>") == 1  # without a plan


def test_the_page_has_the_sections_with_content_and_is_smaller_than_a_megabyte(text: str) -> None:
    assert all(section(text, name) for name in SECTIONS)
    assert re.findall(r'<section id="(\w+)"', text) == SECTIONS
    assert re.findall(r'<a href="#(\w+)">', text) == SECTIONS
    assert len(text.encode()) < 10**6


def test_the_title_of_the_only_workload_is_shown_once(tmp_path: Path) -> None:
    records = [each for each in store.read(made_run(tmp_path)) if each.device == "cpu"]
    text = page.html(run_data.of(tmp_path / "20261124-120000-quick", records))
    title = "lenet on mnist, train, batch 64, float32, sgd 0.01, input from host, cpu (2 cores)"
    assert text.count(f">{title}") == 1


def test_the_policy_allows_only_the_styles_and_the_script_of_the_page(text: str) -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found and found[1].startswith("default-src 'none'; ")
    for directive, element in (("style-src", "style"), ("script-src", "script")):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in found[1]
    assert "unsafe" not in found[1] and " style=" not in text


def test_the_page_names_no_address(text: str) -> None:
    assert set(re.findall(r'https?://[^"<\s]*', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_the_answer_names_the_fastest_its_rate_and_its_interval(text: str) -> None:
    sentence = (
        r"TensorFlow graph is fastest: 6,\d{3} samples/s \(88 % interval 5,\d{3} to 6,\d{3}\)\."
    )
    assert re.search(sentence, section(text, "answer"))
    assert section(text, "answer").count("<svg") == 3


def records_of(rates: dict[str, tuple[float, ...]], blocks: Blocks) -> list[Record]:
    """The runs of each framework, all with the same blocks."""
    return [
        record(framework=name, trial_id=name, repeat=repeat, samples_per_s=rate, blocks=blocks)
        for name, of_runs in rates.items()
        for repeat, rate in enumerate(of_runs)
    ]


def test_an_answer_says_to_which_no_difference_is_shown(tmp_path: Path) -> None:
    rates = {"pytorch": (100.0, 103.0, 101.0, 104.0), "jax": (100.5, 102.0, 101.5, 103.5)}
    records = records_of(rates, Blocks())
    (found,) = answer.answers(run_data.of(tmp_path, records))
    assert found.sentence == (
        "PyTorch eager (102 samples/s) and JAX/Flax eager (102 samples/s) lead: "
        "no difference to the first of them is shown."
    )


def test_an_answer_names_the_trials_that_are_behind_and_a_disturbed_machine(
    tmp_path: Path,
) -> None:
    block = Block(warmup=False, monotonic_ns=10**9, steps=1, duration_s=0.1, samples_per_s=1.0)
    rates = {"pytorch": (200.0, 203.0, 201.0, 204.0), "jax": (100.5, 102.0, 101.5, 103.5)}
    records = records_of(rates, Blocks.of([block, replace(block, disturbed=True)]))
    (found,) = answer.answers(run_data.of(tmp_path, records))
    assert found.sentence == (
        "PyTorch eager is fastest: 202 samples/s (88 % interval 200 to 204). "
        "Behind: JAX/Flax eager. The machine was disturbed in 8 of 16 timed blocks."
    )


def test_an_answer_says_where_there_are_too_few_runs(tmp_path: Path) -> None:
    records = [
        record(framework=name, trial_id=name, samples_per_s=rate)
        for name, rate in {"pytorch": 200.0, "jax": 100.0}.items()
    ]
    (found,) = answer.answers(run_data.of(tmp_path, records))
    assert found.sentence == (
        "PyTorch eager is first: 200 samples/s. "
        "Too few runs to test the difference to JAX/Flax eager."
    )


def test_without_a_proven_trial_no_framework_is_fastest(tmp_path: Path) -> None:
    unproven = record(samples_per_s=1.0, parity=Parity(proven=False, reason="loss is off"))
    (found,) = answer.answers(run_data.of(tmp_path, [unproven]))
    assert found.sentence == "No trial is both measured and proven to be the same work."
    assert "not proven to be the same work" in str(found.warnings)


def test_a_failure_has_its_reason_and_the_end_of_its_log(text: str) -> None:
    found = section(text, "failures")
    assert "the worker was killed" in found and "see its log" in found
    assert "&lt;b&gt;Killed&lt;/b&gt; &amp; gone" in found


def test_a_certificate_that_compares_nothing_has_no_table_of_tensors(tmp_path: Path) -> None:
    """The worker failed before it wrote a tensor."""
    folder = made_run(tmp_path)
    complete = section(page.html(run_data.read(folder)), "parity").count("<details")
    path = next((folder / certificate.FOLDER).iterdir())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"errors": [], "raised": []}))
    assert section(page.html(run_data.read(folder)), "parity").count("<details") == complete - 1


def test_parity_has_the_error_and_the_tolerance_of_each_tensor(text: str) -> None:
    found = section(text, "parity")
    row = re.search(r'<th scope="row">loss</th>(.*?)</tr>', found)
    assert row and re.findall(r">([^<]+)</td>", row[1]) == ["2.0e-06", "1.0e-03", "0.002"]


def test_versions_have_the_lock_of_each_framework(text: str) -> None:
    found = section(text, "machine")
    assert "A made-up processor" in found and "1" * 64 in found and "numpy 2.1.0" in found


def test_every_table_has_a_caption_and_headings(text: str) -> None:
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) > 10
    for table in tables:
        assert "<caption>" in table and '<th scope="col">' in table and '<th scope="row">' in table


def test_two_runs_are_compared_trial_by_trial(run: RunData) -> None:
    slower = [
        each.model_copy(update={"samples_per_s": each.samples_per_s * 0.8, "run_id": "before"})
        for each in run.records
        if each.samples_per_s
    ]
    found = section(page.html(run, run_data.of(run.folder, slower)), "comparison")
    assert "With before" in found and found.count("faster") >= 6


def test_of_many_trials_only_some_are_drawn_and_the_page_says_so(tmp_path: Path) -> None:
    folder = store.RunFolder(tmp_path)
    blocks = run_blocks(made_run(tmp_path / "made"))
    for number in range(details.MOST_TABLES + 5):
        changes = {"learning_rate": 0.001 * (1 + number)}
        one = record(trial_id=f"t{number}", samples_per_s=100.0, blocks=blocks)
        optimizer = one.workload.optimizer.model_copy(update=changes)
        workload = one.workload.model_copy(update={"optimizer": optimizer})
        folder.append(one.model_copy(update={"workload": workload}))
    text = page.html(run_data.read(tmp_path))
    assert section(text, "runs").count("<svg") == details.MOST_DRAWN
    assert section(text, "answer").count("<svg") == answer.MOST_PLOTS
    assert section(text, "answer").count("<article") == details.MOST_TABLES + 5
    note = f"The first {details.MOST_DRAWN} of {details.MOST_TABLES + 5} trials have figures"
    assert note in section(text, "runs")


def run_blocks(folder: Path) -> Blocks:
    return next(each.blocks for each in store.read(folder) if each.status == "ok")


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return run_data.read(made_inference(tmp_path_factory.mktemp("inference")))


def test_the_page_of_inference_has_latencies_the_knee_and_the_ladder(inference: RunData) -> None:
    text = page.html(inference)
    shown = section(text, "answer")
    assert "PyTorch eager is fastest: p50 latency 304 µs (88 % interval 300 to 309 µs)." in shown
    assert "PyTorch eager, batch 16 is fastest: 9,8" in shown
    assert "PyTorch eager is fastest: 887 queries/s (88 % interval 87" in shown
    assert shown.count(">knee</td>") == 3 and shown.count("<svg") == 4
    assert "Skipped: jax:jit, batch 32: the throughput does not grow after batch 4" in shown
    latencies = section(text, "inference")
    assert latencies.count("<svg") == 4 and "The ladder: latencies of one image in µs" in latencies
    of_runs = section(text, "runs")
    assert '<th scope="col">p99</th>' in of_runs and "first inference" in of_runs
    assert '<th scope="col">blocks</th>' not in of_runs
    assert '<th scope="col">answers</th>' in section(text, "parity")
    assert len(text.encode()) < 10**6


def test_a_page_of_training_has_no_section_of_inference(text: str) -> None:
    assert 'id="inference"' not in text
    assert '<th scope="col">answers</th>' not in text


def test_the_page_of_a_gpu_check_begins_with_its_checks(run: RunData) -> None:
    records = tuple(each.model_copy(update={"suite": "check_gpu"}) for each in run.records)
    text = page.html(replace(run, records=records))
    assert re.findall(r'<section id="(\w+)"', text)[0] == "checks"
    assert '<section id="answer"' not in text
    assert "lenet, training, float32" in section(text, "checks")
