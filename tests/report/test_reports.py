"""The summary of a run as a table and as JSON."""

import json
import re

from rich.console import Console

from suite.manifests.workloads import Repeats
from suite.report import as_json, rates_table
from suite.report.numbers import rate_of
from suite.report.summary import summarise
from suite.results.record import Epoch, Error, Parity, Record
from suite.results.telemetry import Energy
from tests.report.test_warnings import QUIET_MACHINE
from tests.results.test_record import record
from tests.results.test_roofline import PEAK

EPOCH = Epoch(
    epoch=1,
    duration_s=9.5,
    train_loss=0.1,
    train_accuracy=0.97,
    test_loss=0.1,
    test_accuracy=0.9691,
)


def some_records() -> list[Record]:
    """Three runs in PyTorch, three in JAX, and one in MXNet that crashed."""
    rates = {"pytorch": (4000.0, 4400.0, 4200.0), "jax": (3000.0, 3100.0, 3050.0)}
    found = [
        record(
            framework=framework,
            trial_id=framework,
            repeat=repeat,
            samples_per_s=rate,
            epochs=(EPOCH,) if repeat == 0 else (),
        )
        for framework, runs in rates.items()
        for repeat, rate in enumerate(runs)
    ]
    error = Error(error_class="WorkerCrashed", message="the worker was killed", hint="see log")
    crashed = record(
        framework="mxnet",
        trial_id="mxnet",
        status="failed",
        error=error,
        parity=Parity(proven=False),
    )
    return [crashed, *found]


def rendered(width: int = 120) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(summarise(some_records()), width))
    return captured.get()


def test_the_table_puts_the_fastest_first_and_failures_last() -> None:
    lines = rendered(width=130).splitlines()
    rows = [line for line in lines if line.startswith((" PyTorch", " JAX", " MXNet"))]
    assert [row.split()[0] for row in rows] == ["PyTorch", "JAX/Flax", "MXNet"]
    assert rows[0].split()[2:] == [
        "4,200",
        "±4.8%",
        "3",
        "1.00",
        "-",
        "9.5",
        "s",
        "96.91%",
        "-",
        "yes",
        "ok",
    ]
    assert rows[1].split()[3:7] == ["±1.6%", "3", "0.73", "-"]
    assert rows[2].split()[-7:] == ["-", "no", "failed", "(1", "of", "1", "runs)"]
    assert "mxnet:eager: the worker was killed" in rendered()


def test_a_model_of_text_has_tokens_per_second_beside_sequences() -> None:
    text = record(samples_per_s=10.0)
    text = text.model_copy(
        update={"workload": text.workload.model_copy(update={"model": "gpt_tiny"})}
    )
    (summary,) = summarise([text])
    assert summary.tokens_per_s == 640
    assert json.loads(as_json.render("r", [summary], []))["trials"][0]["tokens_per_s"] == 640
    console = Console(width=130, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render([summary], 130))
    assert "tokens/s" in captured.get() and "tokens/s" not in rendered(130)


def test_slow_rates_keep_three_digits() -> None:
    shown = [rate_of(rate) for rate in (1234.5, 99.6, 99.4, 1.2345, None)]
    assert shown == ["1,234", "100", "99.4", "1.23", "-"]


def test_the_table_is_plain_text_within_its_width() -> None:
    assert "\x1b" not in rendered()
    assert max(map(len, rendered().splitlines())) <= 120


def test_a_narrow_terminal_omits_columns_and_truncates_none() -> None:
    narrow = rendered(width=72)
    assert max(map(len, narrow.splitlines())) <= 72
    assert "…" not in narrow
    for text in ("PyTorch", "eager", "4,200", "±4.8%", "96.91%"):
        assert text in narrow
    header = next(line for line in narrow.splitlines() if "framework" in line)
    assert "memory" not in header
    assert re.search(r"no room in 72 columns: .*memory", " ".join(narrow.split()))


def test_the_track_is_in_the_title_or_in_each_row_where_there_are_several() -> None:
    assert "track equal" in rendered().splitlines()[0]
    tf32 = {"worker": {"device": {"tf32": True}}, "cpus": [0, 1]}
    tuned = record(track="tuned", trial_id="t", samples_per_s=9000.0, environment=tf32)
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(summarise([*some_records(), tuned])))
    lines = captured.get().splitlines()
    assert "track equal" not in lines[0] and "track" in lines[2]
    assert "tuned (TF32)" in lines[4] and "equal" in lines[5]


def test_json_has_the_identity_the_figures_and_the_parity_of_each_trial() -> None:
    values = json.loads(as_json.render("r", summarise(some_records()), ["jax-r1"]))
    assert values["missing"] == ["jax-r1"]
    first = values["trials"][0]
    assert values["run_id"] == "r"
    assert first["samples_per_s"] == {"median": 4200.0, "ci_low": 4000.0, "ci_high": 4400.0}
    assert (first["framework"], first["runs"], first["accuracy"]) == ("pytorch", 3, 0.9691)
    assert (first["workload"]["model"], first["stop_reason"]) == ("lenet", "run limit")
    assert first["parity"]["proven"] is True
    assert values["trials"][2]["samples_per_s"]["median"] is None
    assert values["trials"][2]["error"]["error_class"] == "WorkerCrashed"


def test_the_share_of_the_peak_has_a_column_where_the_peak_is_known() -> None:
    """A rate of 100 samples per second with 6e8 operations and 1e7 bytes for each."""
    found = summarise([record(samples_per_s=100.0, flops_per_sample=6e8, bytes_per_sample=1e7)])
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(found, 120, PEAK))
    assert "MFU" in captured.get() and " 60% " in captured.get()
    assert "MFU" not in rendered()
    values = json.loads(as_json.render("r", found, [], PEAK))
    assert values["peak"]["best"]["copy"] == {"work_per_s": 20e9, "framework": "mxnet"}
    share = {"compute": 0.6, "memory": 0.05, "bound": "compute"}
    assert values["trials"][0]["peak_share"] == share


def test_the_table_has_the_stop_reasons_where_runs_are_repeated_as_needed() -> None:
    adaptive = Repeats(at_least=3, at_most=10)
    found = [each.model_copy(update={"repeats": adaptive}) for each in some_records()]
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(summarise(found), 200))
    assert (
        "stop reason: pytorch:eager not yet, jax:eager interval narrow, mxnet:eager not yet"
        in captured.get()
    )
    assert "stop reason" not in rendered()


def test_each_kind_of_warning_is_shown_once_with_all_its_trials() -> None:
    found = [
        record(framework=framework, trial_id=framework, samples_per_s=rate)
        for framework, rate in {"pytorch": 4000.0, "jax": 3000.0}.items()
    ]
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(rates_table.render(summarise(found)))
    lines = captured.get().splitlines()
    at = lines.index("warning: too few runs: pytorch:eager (1), jax:eager (1)")
    assert lines[at + 1] == "  hint: --repeats 3 or more"
    trials = json.loads(as_json.render("r", summarise(found), []))["trials"]
    assert trials[0]["warnings"][0] == {
        "kind": "too few runs",
        "detail": "1",
        "hint": "--repeats 3 or more",
        "causes": [],
    }


def test_energy_has_a_column_where_a_trial_has_a_value() -> None:
    energy = Energy(
        source="counter",
        gross_j=100,
        net_j=80,
        gross_j_per_sample=0.0123,
        net_j_per_sample=0.0098,
        idle_power_w=70,
    )
    found = [record(repeat=repeat, samples_per_s=100.0) for repeat in range(3)]
    measured = QUIET_MACHINE.model_copy(update={"cpu_energy": energy, "gpu": None})
    console = Console(width=150, no_color=True)
    with console.capture() as captured:
        summaries = summarise([each.model_copy(update={"telemetry": measured}) for each in found])
        console.print(rates_table.render(summaries, 150))
    assert "J/sample (net)" in captured.get() and "0.0123 (0.0098)" in captured.get()
    assert "J/sample (net)" not in rendered()
    values = json.loads(as_json.render("r", summaries, []))["trials"][0]
    assert values["energy"]["source"] == "counter"
