"""`dlsuite convergence`, and `resume` and `report` of its runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.cli import report as report_command
from suite.cli import run as run_command
from suite.cli.options import ReportFormat
from suite.cli.run import convergence
from suite.errors import ParityFailed, RunsFailed, UsageError
from suite.protocol.plan import Run
from suite.results import store
from suite.results.record import Epoch, Error, Parity, Record
from suite.runner import planfile
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from tests.conftest import started
from tests.results.test_record import record

DLSUITE = Path(sys.executable).with_name("dlsuite")
Accuracy = Callable[[Run], float]
Finish = Callable[[Accuracy], Path]


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finish:
    """Makes the folder of a finished run, PyTorch and MXNet with three seeds of LeNet.

    The accuracies are those of the given function; MXNet has no bf16_mixed.
    """
    monkeypatch.setenv("COLUMNS", "200")  # with room for all columns

    def make(accuracy: Accuracy) -> Path:
        options = RunOptions(frameworks=("pytorch", "mxnet"), models=("lenet",), seeds=3)
        plan = plan_of("convergence", options, device="cpu")
        with store.run_folder(tmp_path, plan.suite) as folder:
            planfile.write(folder.path, started(plan))
            for run in plan.runs:
                folder.append(done(run, accuracy(run)))
        return folder.path

    return make


def done(run: Run, accuracy: float) -> Record:
    """The record of a run with this accuracy in %."""
    trial = run.trial
    values = {"duration_s": 1.0, "train_loss": 0.1, "train_accuracy": 0.9, "test_loss": 0.1}
    found = record(
        trial_id=trial.trial_id,
        framework=trial.framework,
        variant=trial.variant,
        seed=trial.seed,
        epochs=(Epoch(epoch=1, test_accuracy=accuracy / 100, **values),),
    ).model_copy(update={"workload": trial.workload})
    if (trial.framework, trial.workload.precision) != ("mxnet", "bf16_mixed"):
        return found
    error = Error(error_class="Unsupported", message="no bfloat16")
    return found.model_copy(update={"status": "skipped", "epochs": (), "error": error})


def similar(run: Run) -> float:
    """An accuracy that depends on the seed, and little on anything else."""
    little = 0.01 if run.trial.framework == "mxnet" else 0.0
    return 98 + run.trial.seed / 10 + little * run.trial.seed


def worse_in_bfloat16(run: Run) -> float:
    return similar(run) - (0.5 if run.trial.workload.precision == "bf16_mixed" else 0.0)


def rows(text: str) -> dict[tuple[str, str], str]:
    """The last cell of each row, by framework and precision."""
    lines = [line.split() for line in text.splitlines()]
    return {(line[0], line[1]): line[-1] for line in lines if line and ":" in line[0]}


def test_a_finished_run_shows_its_table_and_is_no_error(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unsupported row is no failure."""
    run_command.resume(finished(similar))
    shown = rows(capsys.readouterr().out)
    assert shown["pytorch:eager", "float32"] == shown["mxnet:hybrid", "float32"] == "yes"
    assert shown["pytorch:eager", "bf16_mixed"] == "yes"
    assert shown["mxnet:hybrid", "bf16_mixed"] == "skipped"


def test_a_difference_beyond_the_margin_is_an_error(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "differs by more than 0.25 points: pytorch:eager lenet bf16_mixed$"
    with pytest.raises(ParityFailed, match=message):
        run_command.resume(finished(worse_in_bfloat16))
    shown = rows(capsys.readouterr().out)
    assert shown["pytorch:eager", "bf16_mixed"] == "no"
    assert shown["pytorch:eager", "float32"] == "yes"


def test_failed_and_unproven_runs_are_errors(finished: Finish) -> None:
    folder = store.RunFolder(finished(similar))
    first = next(each for each in store.read(folder.path) if each.status == "ok")
    folder.append(first.model_copy(update={"parity": Parity(proven=False, reason="x")}))
    with pytest.raises(ParityFailed, match="not proven"):
        run_command.resume(folder.path)
    folder.append(first.model_copy(update={"status": "oom"}))
    with pytest.raises(RunsFailed, match="1 of 12 runs failed"):
        run_command.resume(folder.path)


def test_report_shows_the_comparison_in_each_form(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(worse_in_bfloat16)
    report_command.report(folder)
    assert rows(capsys.readouterr().out)["pytorch:eager", "bf16_mixed"] == "no"
    report_command.report(folder, format=ReportFormat.markdown)
    assert "| lenet | pytorch:eager | bf16_mixed | 3 |" in capsys.readouterr().out
    report_command.report(folder, format=ReportFormat.json)
    values = json.loads(capsys.readouterr().out)
    assert sorted(each["seed"] for each in values["trials"]) == sorted([1, 2, 3] * 4)
    verdicts = [each["equivalent"] for each in values["convergence"]]
    assert sorted(verdicts) == ["no", "skipped", "yes", "yes"]


def test_an_unfinished_run_is_reported_with_the_missing_runs(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(similar)
    for path in folder.glob("*-s3-r0.json"):
        path.unlink()
    report_command.report(folder)
    shown = capsys.readouterr().out
    assert "4 planned runs have no record yet" in shown and "too few seeds" in shown


def test_accuracies_of_several_runs_are_in_one_table(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = finished(similar), finished(similar)
    for path in [*first.glob("mxnet-*-r0.json"), *second.glob("pytorch-*-r0.json")]:
        path.unlink()
    report_command.report(first, format=ReportFormat.markdown, also=[second])
    shown = capsys.readouterr().out
    assert "| lenet | pytorch:eager | float32 | 3 |" in shown
    assert "| lenet | mxnet:hybrid | float32 | 3 |" in shown
    with pytest.raises(UsageError, match="--also is for the table of accuracies"):
        report_command.report(first, html=Path("page.html"), also=[second])


def test_markdown_of_one_seed_shows_the_rates(
    finished: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(similar)
    for seed in (2, 3):
        for path in folder.glob(f"*-s{seed}-r0.json"):
            path.unlink()
    report_command.report(folder, format=ReportFormat.markdown)
    shown = capsys.readouterr().out
    assert "| framework | variant | samples/s |" in shown.replace("| track ", "")


def test_too_few_seeds_or_epochs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--seeds is 1; the minimum is 2"):
        convergence(seeds=1)
    with pytest.raises(UsageError, match="--epochs is 0; the minimum is 1"):
        convergence(epochs=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.verify
def test_two_frameworks_train_lenet_with_two_seeds(tmp_path: Path) -> None:
    """Real runs of one epoch: with equal seeds the accuracies are close."""
    options = ("--framework", "pytorch", "--framework", "mxnet", "--model", "lenet")
    reply = subprocess.run(
        [DLSUITE, "convergence", *options, "--seeds", "2", "--epochs", "1"],
        cwd=tmp_path,
        env={**os.environ, "DLSUITE_ENGINE": "venv", "COLUMNS": "200"},  # with room for warnings
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 0, reply.stderr
    records = store.read(tmp_path / "results" / "latest")
    accuracies = {
        (each.framework, each.workload.precision, each.seed): each.epochs[-1].test_accuracy
        for each in records
        if each.status == "ok"
    }
    assert len(accuracies) == 6 and len(records) == 8
    for seed in (1, 2):
        of_seed = [value or 0.0 for key, value in accuracies.items() if key[2] == seed]
        assert min(of_seed) > 0.95 and max(of_seed) - min(of_seed) < 0.005
    assert rows(reply.stdout)["mxnet:hybrid", "bf16_mixed"] == "skipped"
