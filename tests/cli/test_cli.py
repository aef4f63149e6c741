"""The command line as a user meets it: what goes where, and how each mistake ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from suite import errors
from suite.datasets import library
from suite.errors import DlsuiteError
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.paths import MANIFESTS, REPOSITORY

DLSUITE = Path(sys.executable).with_name("dlsuite")
COMMANDS = (
    *("run", "resume", "parity", "selftest", "report", "data", "images", "shell", "clean"),
    *("list", "doctor", "conformance", "compare", "limit"),
)


def dlsuite(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run it, with the venv engine where neither `arguments` nor `environ` say otherwise."""
    return subprocess.run(
        [DLSUITE, *arguments],
        cwd=folder,
        env={**os.environ, "DLSUITE_ENGINE": "venv", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def short_suite(folder: Path, *, limit: bool = False) -> str:
    """The quick suite as a file in `folder`, without whole epochs and soon measured."""
    suite = catalog.suite("quick")
    workloads = tuple(each.model_copy(update={"epochs": 0}) for each in suite.workloads)
    measure = Measure(block_s=0.2, max_warmup_blocks=2, min_measure_s=1, max_measure_s=2)
    changes = {"name": "short", "workloads": workloads, "measure": measure, "limit": limit}
    short = suite.model_copy(update=changes)
    (folder / "short.yaml").write_text(yaml.safe_dump(short.model_dump(mode="json")))
    return "short.yaml"


def refused(code: int, message: str, *arguments: str, folder: Path, **environ: str) -> None:
    """The command ends with `code`, one error line that holds `message`, and a hint."""
    reply = dlsuite(*arguments, folder=folder, **environ)
    lines = [line for line in reply.stderr.splitlines() if line]
    assert (reply.returncode, reply.stdout) == (code, ""), reply.stderr
    assert lines[-2].startswith("error: ") and message in lines[-2], reply.stderr
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in reply.stderr


def test_unknown_names_are_usage_errors_with_the_nearest(tmp_path: Path) -> None:
    unknown = "unknown framework 'pytorc'; nearest: 'pytorch'"
    refused(2, unknown, "run", "quick", "-f", "pytorc", folder=tmp_path)
    refused(2, unknown, "parity", "-f", "pytorc", folder=tmp_path)
    refused(2, "unknown suite 'quik'; nearest: 'quick'", "run", "quik", folder=tmp_path)
    refused(2, "no model 'lenett'", "run", "quick", "--model", "lenett", folder=tmp_path)
    refused(2, "unknown dataset 'mnits'", "data", "prepare", "mnits", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_size_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    refused(2, "--batch-size is 0", "run", "quick", "--batch-size", "0", folder=tmp_path)
    refused(2, "--repeats is -1", "run", "quick", "--repeats", "-1", folder=tmp_path)
    refused(2, "--proof-steps is 0", "run", "quick", "--proof-steps", "0", folder=tmp_path)
    too_large = "batch size 60001 is more than the 60000"
    refused(2, too_large, "run", "quick", "--batch-size", "60001", folder=tmp_path)


def test_a_bad_manifest_is_refused_before_anything_starts(tmp_path: Path) -> None:
    text = (MANIFESTS / "suites" / "quick.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("seed:", "sed:"))
    refused(3, "unknown key 'sed'; nearest: 'seed'", "run", "mine.yaml", folder=tmp_path)
    (tmp_path / "mine.yaml").write_text(text.replace("batch_size: 64", "batch_size: 0"))
    refused(3, "batch_size: Input should be greater than 0", "run", "mine.yaml", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_data_source_without_the_files_is_refused(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    command = ("data", "prepare", "mnist", "--from", str(tmp_path))
    refused(4, "has no train-images-idx3-ubyte", *command, folder=tmp_path, DLSUITE_HOME=home)


def test_results_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = ("run", "quick", "--results", "file/results")
    refused(6, "file/results cannot be written: Not a directory", *command, folder=tmp_path)


def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = str(tmp_path / "file" / "home")
    command = ("run", "quick", "-f", "mxnet")
    refused(5, "file/home", *command, folder=tmp_path, DLSUITE_HOME=home)
    assert list((tmp_path / "results").iterdir()) == []


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    refused(6, "results/latest has no records", "report", folder=tmp_path)
    refused(6, "results/x has no records", "report", "x", folder=tmp_path)


def test_without_network_each_run_fails_with_its_record(tmp_path: Path) -> None:
    """pip is pointed at an index that does not answer; the data is that of `make bench`."""
    data = library.ready(catalog.dataset("mnist"), print)
    home = tmp_path / "home"
    (home / "datasets").mkdir(parents=True)
    (home / "datasets" / "mnist").symlink_to(data)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    reply = dlsuite(
        "run", "quick", "-f", "mxnet", folder=tmp_path, DLSUITE_HOME=str(home), **offline
    )
    assert reply.returncode == 7
    assert "error: 4 of 4 runs did not end well" in reply.stderr
    assert "MXNet cannot be installed: cpu.txt: No matching distribution" in reply.stdout
    assert len(list((tmp_path / "results" / "latest").glob("*.json"))) == 4


def test_list_names_what_there_is(tmp_path: Path) -> None:
    reply = dlsuite("list", folder=tmp_path)
    assert reply.returncode == 0 and reply.stderr == ""
    for line in ("framework pytorch: PyTorch", "model lenet: 431,080 parameters", "suite quick"):
        assert line in reply.stdout


def test_doctor_says_what_is_missing_and_the_next_command(tmp_path: Path) -> None:
    reply = dlsuite("doctor", folder=tmp_path, DLSUITE_HOME=str(tmp_path / "home"))
    assert reply.returncode == 0
    assert "missing dataset mnist: not prepared\n  next: dlsuite data prepare mnist" in reply.stdout
    assert "MXNet: Python 3.1" in reply.stdout
    assert not (tmp_path / "home").exists()


def test_every_command_has_help_and_stands_in_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    command = get_command(cli.cli)
    assert set(command.commands) == set(COMMANDS)  # type: ignore[attr-defined]
    for name in COMMANDS:
        assert command.commands[name].get_short_help_str()  # type: ignore[attr-defined]
        assert f"`dlsuite {name}" in readme


def test_every_exit_code_stands_in_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    classes = [each for each in found if issubclass(each, DlsuiteError)]
    codes = {each.exit_code for each in classes}
    assert len(codes) == len(classes)
    for code in codes:
        assert f"| {code} |" in readme


def test_ctrl_c_stops_the_worker_keeps_finished_records_and_resume_finishes(
    tmp_path: Path,
) -> None:
    """A real run of MXNet, proven over one step, interrupted in its second run."""
    suite = short_suite(tmp_path)
    options = ("--framework", "mxnet", "--repeats", "2", "--proof-steps", "1", "--engine", "venv")
    with subprocess.Popen(
        [DLSUITE, "run", suite, *options],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        latest, deadline = tmp_path / "results" / "latest", time.monotonic() + 240
        while not (latest / "logs").exists() or len(list((latest / "logs").glob("*.log"))) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors_shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted" in errors_shown and "Traceback" not in errors_shown
    records = [json.loads(path.read_text()) for path in latest.glob("*.json")]
    assert [(record["repeat"], record["status"]) for record in records] == [(0, "ok")]
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    reply = dlsuite("report", "--format", "json", folder=tmp_path)
    assert len(json.loads(reply.stdout)["missing"]) == 1
    assert "1 planned runs have no record yet" in dlsuite("report", folder=tmp_path).stdout
    before = (next(latest.glob("*.json"))).read_bytes()
    reply = dlsuite("resume", folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    first, second = sorted(latest.glob("*.json"))
    assert first.read_bytes() == before and json.loads(second.read_text())["repeat"] == 1
    proofs = [json.loads(path.read_text())["parity"] for path in (first, second)]
    assert [(proof["proven"], proof["steps"]) for proof in proofs] == [(True, 1)] * 2
    again = dlsuite("resume", folder=tmp_path)
    assert again.returncode == 0 and again.stdout == reply.stdout and again.stderr == ""


def test_a_resume_of_what_has_changed_is_refused(quick_run: Path) -> None:
    latest = (quick_run / "results" / "latest").resolve()
    begun = latest.with_name("begun")
    begun.mkdir()
    (begun / "logs").mkdir()
    text = (latest / "plan.yaml").read_text()
    worker = json.dumps("f" * 64)
    line = next(line for line in text.splitlines() if line.startswith("worker_sha256"))
    (begun / "plan.yaml").write_text(text.replace(line, f"worker_sha256: {worker}"))
    refused(6, "begun cannot be resumed: the worker changed", "resume", "begun", folder=quick_run)
    refused(6, "none has no plan to resume", "resume", "none", folder=quick_run)


def workers_of(parent: int) -> list[int]:
    stats = [path.read_text().split() for path in Path("/proc").glob("[0-9]*/stat")]
    return [int(fields[0]) for fields in stats if fields[3] == str(parent)]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The main job, one run of each framework: what `make bench` does."""
    folder = tmp_path_factory.mktemp("quick")
    reply = dlsuite("run", "quick", "--repeats", "1", folder=folder)
    (folder / "table.txt").write_text(reply.stdout)
    assert reply.returncode == 0, reply.stderr
    return folder


def test_the_quick_suite_proves_and_measures_every_framework(quick_run: Path) -> None:
    reply = dlsuite("report", "--format", "json", folder=quick_run)
    trials = json.loads(reply.stdout)["trials"]
    assert {trial["framework"] for trial in trials} == {"pytorch", "tensorflow", "jax", "mxnet"}
    for trial in trials:
        assert trial["status"] == "ok" and trial["parity"]["proven"]
        assert trial["samples_per_s"]["median"] > 0
        assert trial["samples_per_s"]["ci_low"] is None  # of one run nothing is known of others
    rates = [trial["samples_per_s"]["median"] for trial in trials]
    assert rates == sorted(rates, reverse=True)


def test_accuracy_after_one_epoch_lies_in_one_narrow_band(quick_run: Path) -> None:
    reply = dlsuite("report", "--format", "json", folder=quick_run)
    accuracies = [trial["accuracy"] for trial in json.loads(reply.stdout)["trials"]]
    assert min(accuracies) > 0.96
    assert max(accuracies) - min(accuracies) < 0.003


def test_an_epoch_run_has_938_steps_and_its_parts(quick_run: Path) -> None:
    for path in (quick_run / "results" / "latest").glob("*.json"):
        record = json.loads(path.read_text())
        assert record["parameters"] == 431_080
        assert 1 + sum(block["steps"] for block in record["blocks"]) >= 938
        assert record["environment"]["worker"]["device"]["threads"] in (
            None,  # what JAX tells
            len(record["environment"]["cpus"]),
        )
        times = record["times"]
        assert times.pop("engine_s") is None  # a process costs its engine nothing
        assert all(times[key] > 0 for key in times)
        assert record["memory"]["host_rss_peak_bytes"] > 2**27
        assert record["epochs"][0]["train_accuracy"] > 0.95


def test_tensorflow_says_that_onednn_is_in_force(quick_run: Path) -> None:
    """By itself it would not be on every CPU."""
    (path,) = (quick_run / "results" / "latest").glob("tensorflow-*.json")
    record = json.loads(path.read_text())
    assert record["runtime"]["environment"]["TF_ENABLE_ONEDNN_OPTS"] == "1"
    assert record["environment"]["worker"]["device"]["policy"]["onednn"] is True


def test_the_table_marks_every_proven_row(quick_run: Path) -> None:
    rows = [line.split() for line in (quick_run / "table.txt").read_text().splitlines()]
    assert sum(row[-2:] == ["=", "ok"] for row in rows) == 4


def test_the_limit_is_measured_once_and_each_row_told_its_share(quick_run: Path) -> None:
    report = json.loads(dlsuite("report", "--format", "json", folder=quick_run).stdout)
    best = report["limit"]["best"]
    assert {"matmul_float32", "matmul_bfloat16", "copy"} == set(best)
    assert set(report["limit"]["by_framework"]) == {"pytorch", "tensorflow", "jax", "mxnet"}
    # Any core of this century: a few operations in each of a billion cycles, and less than a peta.
    assert 1e9 < best["matmul_float32"]["work_per_s"] < 1e15
    assert 1e8 < best["copy"]["work_per_s"] < 1e14
    for trial in report["trials"]:
        assert 0 < trial["of_limit"]["compute"] < 1.5


def test_limit_prints_what_each_framework_shows(tmp_path: Path) -> None:
    reply = dlsuite("limit", "--framework", "mxnet", folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    # Title and caption are folded at the table's width, which the device's name decides.
    rows = {row[0]: row[1:] for row in map(str.split, reply.stdout.splitlines()) if row}
    assert rows["operation"] == ["mxnet", "best"]
    for operation in ("matmul_float32", "copy"):
        figures = rows[operation]
        assert len(figures) == 2 and figures[0] == figures[1] and float(figures[0]) > 0
