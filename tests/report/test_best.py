"""The best row of each framework."""

import json

from rich.console import Console

from suite.report import as_json, best_table, rates_table
from suite.report.best import best
from suite.report.summary import TrialSummary, summarise
from suite.results.record import Memory, Parity
from tests.report.made_inference import inferred
from tests.results.test_record import record

UNPROVEN = Parity(proven=False, reason="not compared")


def summaries() -> list[TrialSummary]:
    """Rows of PyTorch at three batch sizes, of JAX in two precisions, and of MXNet unproven."""
    jax: dict[str, object] = {"framework": "jax", "variant": "jit"}
    memory = Memory(host_rss_peak_bytes=2**30, device_peak_bytes=2**31)
    records = [
        record(trial_id="small", samples_per_s=100.0, batch_size=32),
        record(trial_id="middle", samples_per_s=300.0, batch_size=64, memory=memory),
        record(trial_id="large", samples_per_s=200.0, batch_size=128, input="device"),
        record(trial_id="unproven", samples_per_s=900.0, batch_size=256, parity=UNPROVEN),
        record(trial_id="failed", status="oom", batch_size=512),
        record(trial_id="jax", samples_per_s=250.0, **jax),
        record(trial_id="bf16", samples_per_s=400.0, precision="bf16_mixed", **jax),
        record(trial_id="mxnet", framework="mxnet", samples_per_s=800.0, parity=UNPROVEN),
    ]
    return summarise(records)


def test_the_best_row_is_the_fastest_proven_one_of_each_arithmetic() -> None:
    names = [each.record.trial_id for each in best(summaries())]
    assert names == ["bf16", "middle", "jax"]


def test_the_table_of_the_best_rows_has_their_settings() -> None:
    shown = best_table.render(summaries())
    assert shown is not None
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(shown)
    lines = [" ".join(line.split()) for line in captured.get().splitlines()]
    assert "lenet float32 cpu PyTorch eager equal 64 host 300 1,024 MiB" in lines
    assert "lenet bfloat16 cpu JAX/Flax jit equal 64 host 400 -" in lines
    assert not any("MXNet" in line for line in lines)


def test_a_single_workload_needs_no_table_of_the_best_rows() -> None:
    alone = [each for each in summaries() if each.record.trial_id in ("middle", "jax")]
    assert best_table.render(alone) is None
    unproven = [each for each in summaries() if not each.parity.proven]
    assert best_table.render(unproven) is None


def test_the_best_rows_are_bold_in_their_tables_and_marked_in_json() -> None:
    console = Console(width=120, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print(rates_table.render(summaries()))
    lines = [line for line in captured.get().splitlines() if "PyTorch" in line[:20]]
    bold = [line for line in lines if "\x1b[1m" in line]
    assert len(lines) == 5 and len(bold) == 1 and "300" in bold[0]
    trials = json.loads(as_json.render("r", summaries(), [], notes=["left out"]))
    assert trials["notes"] == ["left out"]
    assert {each["trial_id"] for each in trials["trials"] if each["best"]} == {
        "bf16",
        "middle",
        "jax",
    }


def test_queries_of_other_batch_sizes_and_bounds_are_other_work() -> None:
    slow = [
        inferred("server", latency_bound_s=bound, rate_per_s=rate, trial_id=str(bound))
        for bound, rate in ((0.01, 50.0), (0.1, 90.0))
    ]
    assert len(best(summarise(slow))) == 2
