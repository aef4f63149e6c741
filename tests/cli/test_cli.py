"""The command line as a user meets it: its output, its errors with hints, its exit codes.

Most tests call a command in this process. Where a signal or the end of the process is the subject,
and where frameworks run, `dlsuite` is a process of its own.
"""

import errno
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import suite
from suite import errors
from suite.cli import main
from suite.datasets import library
from suite.errors import (
    BusyError,
    DataError,
    DlsuiteError,
    EngineError,
    ManifestError,
    ResultsError,
    RunsFailed,
    UsageError,
)
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.paths import MANIFESTS, REPOSITORY
from tests.conftest import no_engine

DLSUITE = Path(sys.executable).with_name("dlsuite")
COMMANDS = (
    *(
        "run",
        "resume",
        "check-gpu",
        "parity",
        "selftest",
        "report",
        "site",
        "data",
        "images",
        "shell",
        "clean",
    ),
    *("list", "doctor", "conformance", "compare", "peak", "convergence"),
    *(
        "history",
        "query",
        "export",
        "import",
        "verify",
        "explain",
        "bundle",
        "repeat",
        "cloud",
        "model",
    ),
)
COMMANDS_PAGE = REPOSITORY / "docs" / "reference" / "commands.md"

Command = Callable[..., None]
Refused = Callable[..., None]


def dlsuite(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the process `dlsuite`, by default with the venv engine."""
    return subprocess.run(
        [DLSUITE, *arguments],
        cwd=folder,
        env={**os.environ, "DLSUITE_ENGINE": "venv", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(code: int, message: str, *arguments: str, folder: Path, **environ: str) -> None:
    """The process ends with `code`, an error line that contains `message`, and a hint."""
    reply = dlsuite(*arguments, folder=folder, **environ)
    assert (reply.returncode, reply.stdout) == (code, ""), reply.stderr
    check_error(reply.stderr, message)


def check_error(stderr: str, message: str) -> None:
    """The last two lines are an error that contains `message`, and a hint."""
    lines = [line for line in stderr.splitlines() if line]
    assert lines[-2].startswith("error: ") and message in lines[-2], stderr
    assert lines[-1].startswith("hint: ") and len(lines[-1]) > len("hint: ")
    assert "Traceback" not in stderr


@pytest.fixture
def command(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Calls a command in this process, in the folder `tmp_path` and with the venv engine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLSUITE_ENGINE", "venv")
    # With a lock of its own it does not wait for other processes that measure.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))

    def call(*arguments: str) -> None:
        get_command(main.cli).main(list(arguments), prog_name="dlsuite", standalone_mode=False)

    return call


@pytest.fixture
def refuses(command: Command, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Checks that a command fails with this error, in one line with a hint, and prints nothing."""

    def check(kind: type[DlsuiteError], message: str, *arguments: str) -> None:
        with pytest.raises((DlsuiteError, OSError)) as caught:
            command(*arguments)
        error = main.as_known(caught.value)
        assert type(error) is kind and message in str(error), repr(error)
        assert error.hint and "\n" not in f"{error}{error.hint}"
        assert capsys.readouterr().out == ""

    return check


def cells(text: str) -> list[list[str]]:
    """The cells of each line of a table, without empty ones."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def short_suite(folder: Path, *, peak: bool = False) -> str:
    """The quick suite in its usual variants, as a file in `folder`, with shorter runs."""
    quick = catalog.suite("quick")
    measure = Measure(block_s=0.2, max_warmup_blocks=2, min_measure_s=1, max_measure_s=2)
    frameworks = tuple(each for each in quick.frameworks if "/" not in each)
    changes = {"name": "short", "measure": measure, "peak": peak}
    changes["frameworks"] = frameworks
    short = quick.model_copy(update=changes)
    (folder / "short.yaml").write_text(yaml.safe_dump(short.model_dump(mode="json")))
    return "short.yaml"


def test_an_error_is_one_line_with_a_hint_and_an_exit_code(tmp_path: Path) -> None:
    refused(2, "unknown suite 'quik'; nearest: 'quick'", "run", "quik", folder=tmp_path)
    debugged = dlsuite("--debug", "report", folder=tmp_path)
    assert debugged.returncode == 6 and debugged.stdout == ""
    assert "Traceback" in debugged.stderr
    assert debugged.stderr.splitlines()[-2:] == [
        f"error: {tmp_path / 'results' / 'latest'} has no records",
        "hint: dlsuite run quick",
    ]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_waiting_command_with_exit_code_130(tmp_path: Path, sign: int) -> None:
    """The command waits for a process that measures: this one holds the lock."""
    lock = tmp_path / "dlsuite-measuring.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen(
            [DLSUITE, "run", "quick", "--engine", "venv"],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path), "DLSUITE_HOME": str(tmp_path / "home")},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_default_interrupt,
        ) as process:
            assert process.stderr is not None
            assert "waiting for it to end" in process.stderr.readline()
            process.send_signal(sign)
            _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    check_error(shown, "interrupted")
    assert "hint: run the command again" in shown
    assert list((tmp_path / "results").iterdir()) == []


def _default_interrupt() -> None:
    # A background job of a shell ignores Ctrl-C, and its children would ignore it too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_bug_is_shown_as_one() -> None:
    error = main.as_known(ZeroDivisionError("division by zero"))
    assert str(error) == "bug in dlsuite: ZeroDivisionError: division by zero"
    assert error.exit_code == 1 and "--debug" in error.hint


@pytest.mark.parametrize(
    "error", [OSError("401408 requested and 102272 written"), OSError(errno.EFBIG, "too large")]
)
def test_a_limit_of_the_size_of_files_is_named(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (102400, 102400))
    assert "ulimit -f allows 102,400 bytes in a file" in str(main.as_known(error))


def test_the_version_is_shown(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    command("--version")
    assert capsys.readouterr().out == f"dlsuite {suite.__version__}\n"


def test_unknown_names_are_usage_errors_with_the_nearest_name(
    refuses: Refused, tmp_path: Path
) -> None:
    unknown = "unknown framework 'pytorc'; nearest: 'pytorch'"
    refuses(UsageError, unknown, "run", "quick", "-f", "pytorc")
    refuses(UsageError, unknown, "parity", "-f", "pytorc")
    refuses(UsageError, "unknown suite 'quik'; nearest: 'quick'", "run", "quik")
    refuses(UsageError, "no model 'lenett'", "run", "quick", "--model", "lenett")
    refuses(UsageError, "unknown dataset 'mnits'", "data", "prepare", "mnits")
    assert list(tmp_path.iterdir()) == []


def test_invalid_numbers_are_usage_errors(refuses: Refused, tmp_path: Path) -> None:
    refuses(UsageError, "--batch-size is 0", "run", "quick", "--batch-size", "0")
    refuses(UsageError, "--repeats is -1", "run", "quick", "--repeats", "-1")
    refuses(UsageError, "--proof-steps is 0", "run", "quick", "--proof-steps", "0")
    refuses(UsageError, "--epochs is -1", "run", "quick", "--epochs", "-1")
    refuses(UsageError, "--max-time '1x' is not a duration", "run", "quick", "--max-time", "1x")
    too_large = "batch size 60001 is more than the 60000"
    refuses(UsageError, too_large, "run", "quick", "--batch-size", "60001")
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_manifest_is_refused_before_anything_starts(
    refuses: Refused, tmp_path: Path
) -> None:
    text = (MANIFESTS / "suites" / "quick.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("seed:", "sed:"))
    refuses(ManifestError, "unknown key 'sed'; nearest: 'seed'", "run", "mine.yaml")
    (tmp_path / "mine.yaml").write_text(text.replace("batch_size: 64", "batch_size: 0"))
    refuses(ManifestError, "batch_size: Input should be greater than 0", "run", "mine.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_data_source_without_the_files_is_refused(
    refuses: Refused, home: Path, tmp_path: Path
) -> None:
    command = ("data", "prepare", "mnist", "--from", str(tmp_path))
    refuses(DataError, "has no train-images-idx3-ubyte", *command)


def test_results_that_cannot_be_written_are_refused(refuses: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = "file/results cannot be written: Not a directory"
    refuses(ResultsError, message, "run", "quick", "--results", "file/results")


def test_a_home_that_cannot_be_written_is_refused(
    refuses: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "file" / "home"))
    refuses(EngineError, "file/home", "run", "quick", "-f", "mxnet")
    assert list((tmp_path / "results").iterdir()) == []


def test_a_report_without_records_is_refused(refuses: Refused) -> None:
    refuses(ResultsError, "results/latest has no records", "report")
    refuses(ResultsError, "results/x has no records", "report", "x")


def test_a_resume_without_a_plan_is_refused(refuses: Refused, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    refuses(ResultsError, "none has no plan to resume", "resume", "none")


def test_a_busy_machine_is_refused_on_request(refuses: Refused, tmp_path: Path) -> None:
    with (Path(tempfile.gettempdir()) / "dlsuite-measuring.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        message = "another dlsuite is measuring on this machine"
        refuses(BusyError, message, "run", "quick", "--if-busy", "refuse")
    assert list((tmp_path / "results").iterdir()) == []


def test_without_a_package_index_each_run_fails_with_its_record(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """pip may use no index; the data is that of `make bench`."""
    data = library.ready(catalog.dataset("mnist"), print)
    home = tmp_path / "home"
    (home / "datasets").mkdir(parents=True)
    (home / "datasets" / "mnist").symlink_to(data)
    monkeypatch.setenv("DLSUITE_HOME", str(home))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(RunsFailed, match="8 of 8 runs failed") as caught:
        command("run", "quick", "-f", "mxnet")
    assert caught.value.exit_code == 7
    shown = capsys.readouterr().out
    assert "MXNet cannot be installed: cpu.txt: No matching distribution" in shown
    assert len(list((tmp_path / "results" / "latest").glob("*-r*.json"))) == 8


def test_list_names_frameworks_models_and_suites(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command("list")
    shown = capsys.readouterr()
    rows = cells(shown.out)
    assert shown.err == ""
    assert ["pytorch:eager", "Python >=3.11,<3.14", "eager mode"] in rows
    assert ["lenet", "431,080", "1 x 28 x 28"] in rows
    assert ["mnist", "MNIST, 28 x 28 grey digits"] in rows
    assert {"equal", "quick"} <= {row[0] for row in rows}


def test_doctor_shows_missing_parts_with_the_next_command(
    command: Command, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("doctor")
    shown = capsys.readouterr().out
    rows = cells(shown)
    assert ["missing", "dataset mnist: not prepared"] in rows
    assert "next for dataset mnist: dlsuite data prepare mnist\n" in shown
    assert any(row[1].startswith("MXNet: Python 3.1") for row in rows if row[0] == "ok")
    assert not home.exists()


def test_every_command_has_help_and_is_documented() -> None:
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    commands = get_command(main.cli).commands  # type: ignore[attr-defined]
    assert set(commands) == set(COMMANDS)
    for name in COMMANDS:
        assert commands[name].get_short_help_str()
        assert f"`dlsuite {name}" in page


def test_every_exit_code_is_documented() -> None:
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    classes = [each for each in found if issubclass(each, DlsuiteError)]
    codes = {each.exit_code for each in classes}
    assert len(codes) == len(classes)
    for code in codes:
        assert f"| {code} |" in page
        assert f" {code} " in main.EXIT_CODES


def workers_of(parent: int) -> list[int]:
    """The ids of the child processes."""
    stats = [path.read_text().split() for path in Path("/proc").glob("[0-9]*/stat")]
    return [int(fields[0]) for fields in stats if fields[3] == str(parent)]


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """A run that Ctrl-C ended in its second run, before it is resumed."""

    folder: Path
    exit_code: int
    stderr: str
    workers: list[int]  # that ran when the signal was sent
    survivors: list[int]  # of these, those that ran when the command had ended
    records: dict[str, bytes]  # by name
    report: str


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """One short run of each framework, proven over one step; the second one is interrupted."""
    folder = tmp_path_factory.mktemp("quick")
    chosen = [f"--framework={name}" for name in run_here()]
    options = (*chosen, "--repeats", "1", "--proof-steps", "1", "--engine", "venv")
    with subprocess.Popen(
        [DLSUITE, "run", short_suite(folder), *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_default_interrupt,
    ) as process:
        latest = folder / "results" / "latest"
        logs, deadline = latest / "logs", time.monotonic() + 240
        while not logs.exists() or len(list(logs.glob("*.log"))) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    return Interrupted(
        folder=folder,
        exit_code=process.returncode,
        stderr=shown,
        workers=workers,
        survivors=[each for each in workers if Path(f"/proc/{each}").exists()],
        records={path.name: path.read_bytes() for path in latest.glob("*-r*.json")},
        report=dlsuite("report", folder=folder).stdout,
    )


@pytest.fixture(scope="module")
def quick_run(interrupted: Interrupted) -> Path:
    """The folder of the run, after it is resumed and complete."""
    reply = dlsuite("resume", folder=interrupted.folder)
    assert reply.returncode == 0, reply.stderr
    (interrupted.folder / "table.txt").write_text(reply.stdout)
    return interrupted.folder


def test_ctrl_c_stops_the_worker_and_keeps_the_records(interrupted: Interrupted) -> None:
    assert interrupted.exit_code == 130
    assert "error: interrupted" in interrupted.stderr and "Traceback" not in interrupted.stderr
    assert "hint: dlsuite resume " in interrupted.stderr
    assert interrupted.workers and not interrupted.survivors
    (first,) = interrupted.records.values()
    assert json.loads(first)["status"] == "ok"
    missing = len(run_here()) - 1
    assert f"{missing} planned runs have no record yet" in interrupted.report


def test_a_resume_keeps_the_records_and_does_the_other_runs(
    interrupted: Interrupted, quick_run: Path
) -> None:
    records = {path.name: path for path in (quick_run / "results" / "latest").glob("*-r*.json")}
    for name, before in interrupted.records.items():
        assert records[name].read_bytes() == before
    proofs = [json.loads(path.read_text())["parity"] for path in records.values()]
    assert [(each["proven"], each["steps"]) for each in proofs] == [(True, 1)] * len(run_here())
    again = dlsuite("resume", folder=quick_run)
    assert again.returncode == 0 and again.stderr == ""
    assert again.stdout == (quick_run / "table.txt").read_text()


def run_here() -> set[str]:
    """The frameworks of the quick suite; two, where test_cli_docker.py runs the others."""
    return {"tensorflow", "mxnet"} | ({"pytorch", "jax"} if no_engine() else set())


@pytest.fixture(scope="module")
def epoch_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a quick run with one epoch of each framework."""
    return _run(tmp_path_factory.mktemp("epochs"), "quick", "--fresh-peak", "--epochs", "1")


def _run(folder: Path, suite: str, *options: str) -> Path:
    reply = dlsuite("run", suite, "--repeats", "1", *options, folder=folder)
    (folder / "table.txt").write_text(reply.stdout)
    assert reply.returncode == 0, reply.stderr
    return folder


def test_a_resume_after_a_change_of_the_worker_is_refused(quick_run: Path) -> None:
    latest = (quick_run / "results" / "latest").resolve()
    started = latest.with_name("started")
    started.mkdir()
    (started / "logs").mkdir()
    planned = json.loads((latest / "plan.json").read_text())
    (started / "plan.json").write_text(json.dumps(planned | {"worker_sha256": "f" * 64}))
    message = "started cannot be resumed: the worker changed"
    refused(6, message, "resume", "started", folder=quick_run)


def test_the_quick_suite_proves_and_measures_every_framework(quick_run: Path) -> None:
    reply = dlsuite("report", "--format", "json", folder=quick_run)
    trials = json.loads(reply.stdout)["trials"]
    assert {trial["framework"] for trial in trials} == run_here()
    for trial in trials:
        assert trial["status"] == "ok" and trial["parity"]["proven"]
        assert trial["samples_per_s"]["median"] > 0
        assert trial["samples_per_s"]["ci_low"] is None  # one run has no interval
    rates = [trial["samples_per_s"]["median"] for trial in trials]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.verify
def test_a_bundle_is_repeated_in_an_empty_folder(tmp_path: Path) -> None:
    short, place = short_suite(tmp_path), tmp_path / "elsewhere"
    options = ("--framework", "mxnet", "--framework", "pytorch", "--proof-steps", "1")
    reply = dlsuite("run", short, *options, "--repeats", "2", folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    reply = dlsuite("bundle", "--out", "run.tar.gz", folder=tmp_path)
    assert reply.returncode == 0 and "dlsuite repeat run.tar.gz" in reply.stdout
    place.mkdir()
    # Two runs have wide intervals, and the tests share the machine.
    reply = dlsuite("repeat", "../run.tar.gz", "--within", "90%", folder=place)
    assert reply.returncode in (0, 14), reply.stderr
    assert reply.stdout.count("the proof agrees") == 2 and ": the rate " in reply.stdout
    assert len(list((place / "results").glob("2*"))) == 2  # the imported run, and the new one


def test_a_real_run_verifies_where_it_is_imported(quick_run: Path, tmp_path: Path) -> None:
    reply = dlsuite("export", "latest", str(tmp_path / "run.tar.gz"), folder=quick_run)
    assert reply.returncode == 0, reply.stderr
    in_file = dlsuite("verify", "run.tar.gz", folder=tmp_path)
    assert in_file.returncode == 0 and "0 findings" in in_file.stdout, in_file.stdout
    assert dlsuite("import", "run.tar.gz", folder=tmp_path).returncode == 0
    (run,) = (tmp_path / "results").iterdir()
    reply = dlsuite("verify", run.name, folder=tmp_path)
    assert reply.returncode == 0, reply.stdout
    count = len(run_here())
    checked = f"{count} records and {count} certificates checked"
    assert reply.stdout == f"{run.name}: {checked}, 0 findings\n"


@pytest.mark.verify
def test_accuracy_after_one_epoch_is_in_one_narrow_band(epoch_run: Path) -> None:
    reply = dlsuite("report", "--format", "json", folder=epoch_run)
    accuracies = [trial["accuracy"] for trial in json.loads(reply.stdout)["trials"]]
    assert min(accuracies) > 0.96
    assert max(accuracies) - min(accuracies) < 0.003


@pytest.mark.verify
def test_the_record_of_an_epoch_has_938_steps_and_all_durations(epoch_run: Path) -> None:
    for path in (epoch_run / "results" / "latest").glob("*-r*.json"):
        record = json.loads(path.read_text())
        assert record["parameters"] == 431_080
        assert 1 + sum(record["blocks"]["steps"]) >= 938
        assert record["environment"]["worker"]["device"]["threads"] in (
            None,  # JAX does not report its threads
            len(record["environment"]["cpus"]),
        )
        times = record["times"]
        assert times.pop("engine_s") is None  # the venv engine has no overhead
        assert times.pop("exchange_s") is None  # one rank
        assert all(times[key] > 0 for key in times)
        assert record["memory"]["host_rss_peak_bytes"] > 2**27
        assert record["epochs"][0]["train_accuracy"] > 0.95


def test_tensorflow_reports_that_onednn_is_active(quick_run: Path) -> None:
    """By default it is not active on every CPU."""
    (path,) = (quick_run / "results" / "latest").glob("tensorflow-*-r*.json")
    record = json.loads(path.read_text())
    assert record["runtime"]["environment"]["TF_ENABLE_ONEDNN_OPTS"] == "1"
    assert record["environment"]["worker"]["device"]["policy"]["onednn"] is True


def test_the_table_shows_every_row_as_the_same_work(quick_run: Path) -> None:
    rows = [line.split() for line in (quick_run / "table.txt").read_text().splitlines()]
    assert sum(row[-2:] == ["yes", "ok"] for row in rows) == len(run_here())


@pytest.mark.verify
def test_the_peak_is_measured_once_and_each_row_has_its_share(epoch_run: Path) -> None:
    report = json.loads(dlsuite("report", "--format", "json", folder=epoch_run).stdout)
    best = report["peak"]["best"]
    assert {"matmul_float32", "copy"} == set(best)
    assert set(report["peak"]["by_framework"]) == {"pytorch", "tensorflow", "jax", "mxnet"}
    # Plausible for any current core: at least one operation per nanosecond, less than a petaflop/s.
    assert 1e9 < best["matmul_float32"]["work_per_s"] < 1e15
    assert 1e8 < best["copy"]["work_per_s"] < 1e14
    for trial in report["trials"]:
        assert 0 < trial["peak_share"]["compute"] < 1.5


def test_peak_prints_the_rates_of_each_framework(tmp_path: Path) -> None:
    reply = dlsuite("peak", "--framework", "mxnet", folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    # Title and caption are folded at the table's width, which depends on the device's name.
    rows = {row[0]: row[1:] for row in map(str.split, reply.stdout.splitlines()) if row}
    assert rows["operation"] == ["mxnet", "peak"]
    for operation in ("matmul_float32", "copy"):
        rates = rows[operation]
        assert len(rates) == 2 and rates[0] == rates[1] and float(rates[0].replace(",", "")) > 0
