"""Progress on standard error: live lines on a terminal, plain lines elsewhere."""

import io
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from suite.protocol.plan import Plan
from suite.report import live
from suite.results.record import Error, Times
from suite.runner.costs import Costs
from suite.runner.estimate import Estimate
from suite.runner.planning import plan_of
from suite.runner.progress import STAGES
from suite.runner.run_options import RunOptions
from tests.report.made_inference import inferred
from tests.results.test_record import record


def use_console(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> io.StringIO:
    """Let Live write to a console of 80 columns; return the text that it has written so far."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=80, no_color=True)
    monkeypatch.setattr(live, "console", lambda stderr: console)
    return shown


def shown_of_one_run(plan: Plan, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    """The output of one run, from the installation of its framework to its record."""
    shown = use_console(monkeypatch, terminal=terminal)
    run = plan.runs[0]
    with live.Live() as display:
        display.notify("PyTorch: making its environment")
        display.notify("PyTorch: downloading torch.whl")
        display.planned(plan, STAGES)
        display.stage("runs")
        block = {"event": "block", "samples_per_s": 640.0, "left_s": 7.0}
        display.event(run, {"event": "an unknown kind"})
        display.event(run, block)
        display._bars.refresh()
        display.done(run, record(samples_per_s=650.0))
    return shown.getvalue()


def test_a_terminal_shows_a_live_line_with_phase_rate_and_time_left(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown_of_one_run(quick("pytorch"), monkeypatch, terminal=True)
    words = " ".join(text.split())  # columns are padded
    assert "pytorch:eager █ 640 1/1 measuring 7 s" in words
    assert words.split("\x1b")[-2].endswith("pytorch:eager ━━━━━━━━ █ 650 1/1 ok ")


def test_warnings_stay_on_a_terminal_and_do_not_replace_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = use_console(monkeypatch, terminal=True)
    with live.Live() as display:
        for text in ("warning: one", "warning: two", "PyTorch: a message"):
            display.notify(text)
    text = shown.getvalue()
    assert text.count("warning: one\n") == 1 and text.count("warning: two\n") == 1


def test_a_pipe_gets_one_plain_line_for_each_message_and_each_run(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown_of_one_run(quick("pytorch"), monkeypatch, terminal=False)
    assert text.splitlines() == [
        "PyTorch: making its environment",
        "stage: runs",
        "pytorch:eager lenet run 1/1 ok 650 samples/s",
    ]


def test_a_log_gets_at_most_one_line_a_minute_about_what_is_running(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, now_s = use_console(monkeypatch, terminal=False), [0.0]
    plan = quick("pytorch", repeats=3)
    with live.Live(clock=lambda: now_s[0]) as display:
        display.planned(plan, STAGES)
        display.stage("runs")
        display.done(plan.runs[0], record(trial_id=plan.trials[0].trial_id))
        for _ in range(13):  # events of two minutes, ten seconds apart
            display.event(plan.runs[1], {"event": "block", "samples_per_s": 640.0})
            now_s[0] += 10
    text = shown.getvalue()
    lines = text.splitlines()
    assert lines[0] == "stage: runs" and len(lines) == 4
    assert all(
        "pytorch:eager lenet run 2/3 (1 of 3 runs done) runs: " in each for each in lines[2:]
    )
    assert "\x1b" not in text and "\r" not in text


def overview(display: live.Live, shown: io.StringIO) -> str:
    """The line of the stages as it is shown now."""
    shown.seek(0)
    shown.truncate()
    display._bars.refresh()
    # The last one: the display's own thread may have written an older one meanwhile.
    return [line for line in shown.getvalue().splitlines() if "environments" in line][-1]


def test_the_overview_names_all_stages_and_shows_progress_and_time_left(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages before the runs count, less the time since the current one started."""
    shown = use_console(monkeypatch, terminal=True)
    plan = quick("pytorch", repeats=3)
    with live.Live() as display:
        display.planned(plan, STAGES)
        assert "data  environments  parity  peak  runs" in overview(display, shown)
        costs = Costs(plan=plan, cores=2)
        stages_s = {"data": 0.0, "environments": 0.0, "parity": 1200.0, "peak": 60.0}
        assert "runs:" in overview(display, shown)
        display.estimated(Estimate(costs=costs, stages_s=stages_s, new_bytes=0, results_bytes=0))
        assert "all: 22 min left" in overview(display, shown)
        display.stage("data")
        assert "[data]  environments  parity  peak  runs" in overview(display, shown)
        display.stage("environments")
        assert "data ✓  [environments]  parity  peak  runs" in overview(display, shown)
        display.stage("parity")
        monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + 600)
        assert "all: 12 min left" in overview(display, shown)
        display.stage("peak")
        display.stage("runs")
        line = overview(display, shown)
        assert "data ✓  environments ✓  parity ✓  peak ✓  [runs]" in line
        name = plan.trials[0].trial_id
        display.done(plan.runs[0], record(trial_id=name, times=Times(total_s=20.0)))
        assert "runs: 40 s left" in overview(display, shown)
        slower = record(trial_id=name, repeat=1, times=Times(total_s=220.0))
        display.done(plan.runs[1], slower)
        assert "runs: 2 min left" in overview(display, shown)


def test_a_command_without_runs_shows_its_stages_and_no_time(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = use_console(monkeypatch, terminal=True)
    with live.Live() as display:
        display.planned(quick("pytorch"), ("data", "environments", "peak"))
        line = overview(display, shown)
    assert "data  environments  peak" in line and "runs" not in line and "left" not in line


def test_the_runs_have_a_line_for_each_trial_once_they_start(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = use_console(monkeypatch, terminal=True)
    with live.Live() as display:
        display.planned(quick("pytorch", "mxnet"), STAGES)
        display.notify("PyTorch: making its environment")
        display._bars.refresh()
        assert "PyTorch: making" in shown.getvalue() and "waiting" not in shown.getvalue()
        display.stage("runs")
        overview(display, shown)
        assert shown.getvalue().count("waiting") == 2
        assert "PyTorch: making" not in shown.getvalue()


def test_trials_that_differ_only_in_their_seed_share_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = use_console(monkeypatch, terminal=True)
    options = RunOptions(frameworks=("pytorch",), models=("lenet",), seeds=3)
    plan = plan_of("convergence", options, device="cpu")
    third = [run for run in plan.runs if run.trial.workload.precision == "bf16_mixed"][2]
    with live.Live() as display:
        display.planned(plan, STAGES)
        display.stage("runs")
        display.event(third, {"event": "epoch"})
        overview(display, shown)
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    trials = {line.partition("pytorch:eager ")[2] for line in lines if "pytorch:eager" in line}
    assert trials == {"waiting", "bf16_mixed 3/3 epoch done"}


def test_with_many_trials_only_those_in_progress_have_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = use_console(monkeypatch, terminal=True)
    plan = plan_of("zoo", RunOptions(frameworks=("pytorch", "jax")), device="cpu")
    assert len(plan.trials) > live.MANY
    first, second, *_ = plan.runs
    with live.Live() as display:
        display.planned(plan, STAGES)
        display.stage("runs")
        assert display._lines == {}
        display.event(first, {"event": "started"})
        display.event(second, {"event": "started"})
        assert set(display._lines) == {live._line(first.trial), live._line(second.trial)}
        display.done(first, record(trial_id=first.trial.trial_id))
        assert set(display._lines) == {live._line(second.trial)}
    assert "waiting" not in shown.getvalue()


def test_a_run_of_inference_is_named_with_its_scenario_and_shows_its_p50(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of("inference", RunOptions(frameworks=("pytorch",)), device="cpu")
    run = next(each for each in plan.runs if each.trial.workload.scenario == "offline")
    latency = next(each for each in plan.runs if each.trial.workload.scenario == "single_stream")
    shown = use_console(monkeypatch, terminal=False)
    with live.Live() as display:
        display.planned(plan, STAGES)
        display.stage("runs")
        display.done(latency, inferred(p50_s=274e-6))
        display.done(run, inferred("offline", samples_per_s=5000.0))
    lines = shown.getvalue().splitlines()[1:]
    assert lines[0].startswith("pytorch:eager ") and " single_stream run 1/" in lines[0]
    assert lines[0].endswith("ok 274 µs") and lines[1].endswith("ok 5,000 samples/s")
    assert " offline b1 run 1/" in lines[1]


def test_brackets_in_the_message_of_a_worker_are_shown(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = quick("tensorflow")
    error = Error(error_class="InternalError", message="[rank 1] [/job:localhost/task:0] failed")
    with live.Live() as display:
        display.planned(plan, STAGES)
        display.done(plan.runs[0], record(status="failed", error=error))
    assert "failed [rank 1] [/job:localhost/task:0] failed" in capsys.readouterr().err
