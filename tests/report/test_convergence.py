"""Accuracies over seeds: the comparisons of precisions and frameworks, and their table."""

from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from suite.report import convergence, convergence_table
from suite.report.convergence import Row
from suite.results.record import Epoch, Error, Parity, Record
from tests.results.test_record import record

USUAL = {"pytorch": "eager", "jax": "jit", "mxnet": "hybrid"}
CRASHED = Error(error_class="WorkerCrashed", message="killed")
UNSUPPORTED = Error(error_class="Unsupported", message="no bfloat16")
Values = Sequence[float | None]


def records(
    framework: str, accuracies: Values, precision: str = "float32", **changes: object
) -> list[Record]:
    """A record for each seed from 1; its last epoch has the accuracy (%), with None it failed."""
    failed: dict[str, object] = {"status": "failed", "error": CRASHED}
    return [
        record(
            **{
                "framework": framework,
                "variant": USUAL[framework],
                "precision": precision,
                "seed": seed,
                "epochs": _epochs(accuracy),
                **({} if accuracy else failed),
                **changes,
            }
        )
        for seed, accuracy in enumerate(accuracies, start=1)
    ]


def _epochs(accuracy: float | None) -> tuple[Epoch, ...]:
    """Two epochs, of which the first is worse."""
    values = {"duration_s": 1.0, "train_loss": 0.1, "train_accuracy": 0.9, "test_loss": 0.1}
    return tuple(
        Epoch(epoch=number, test_accuracy=each / 100, **values)
        for number, each in enumerate((90.0, accuracy), start=1)
        if each
    )


ALL = [
    *records("pytorch", (98.0, 98.5, 99.0)),
    *records("jax", (98.1, 98.5, 99.0)),
    *records("mxnet", (97.0, 97.6, 98.0)),
    *records("jax", (98.1, 98.6, 98.9), "bf16_mixed"),
    *records("pytorch", (97.5, 98.1, 98.6), "bf16_mixed"),
    *records("mxnet", (None,) * 3, "bf16_mixed", status="skipped", error=UNSUPPORTED),
]


def by_name(found: Sequence[Row]) -> Mapping[str, Row]:
    return {convergence_table.name_of(row): row for row in found}


def test_one_framework_that_deviates_does_not_shift_the_rows_of_the_others() -> None:
    alike = [*records("pytorch", (98.0, 98.5, 99.0)), *records("jax", (98.1, 98.5, 99.0))]
    third = records("jax", (98.0, 98.6, 99.1), variant="scan")
    off = records("mxnet", (96.0, 96.5, 97.0))
    verdicts = {
        name: row.equivalence.verdict
        for name, row in by_name(convergence.rows([*alike, *third, *off])).items()
        if row.equivalence
    }
    assert verdicts.pop("mxnet:hybrid lenet float32") == "no"
    assert set(verdicts.values()) == {"yes"}


def test_a_seed_that_one_framework_lacks_is_compared_with_the_rest() -> None:
    found = convergence.rows([*ALL, *records("jax", (98.0,), variant="scan")])
    row = by_name(found)["pytorch:eager lenet float32"]
    assert row.against == pytest.approx({1: 98.0, 2: 98.05, 3: 98.5})


def test_float32_is_compared_with_the_median_of_the_other_frameworks() -> None:
    row = by_name(convergence.rows(ALL))["mxnet:hybrid lenet float32"]
    assert row.against == pytest.approx({1: 98.05, 2: 98.5, 3: 99.0})
    assert row.mean == pytest.approx(97.5333, abs=1e-4)
    assert row.deviation == pytest.approx(0.50332, abs=1e-5)
    test = row.equivalence
    assert test is not None and test.mean == pytest.approx((-1.05 - 0.9 - 1.0) / 3)
    assert test.verdict == "no"


def test_bf16_mixed_is_compared_with_the_same_framework_in_float32() -> None:
    found = by_name(convergence.rows(ALL))
    jax, pytorch = (found[f"{name} lenet bf16_mixed"] for name in ("jax:jit", "pytorch:eager"))
    assert jax.against == found["jax:jit lenet float32"].accuracies
    assert jax.equivalence is not None and jax.equivalence.verdict == "yes"
    assert pytorch.equivalence is not None and pytorch.equivalence.verdict == "no"


def test_only_seeds_of_both_sides_are_compared() -> None:
    """Differences are paired: a seed that one framework lacks says nothing about the other."""
    found = [*records("pytorch", (98.0, None, 99.0)), *records("jax", (98.1, 98.5, 99.0))]
    jax, pytorch = convergence.rows(found)
    for row in (jax, pytorch):
        assert row.equivalence is not None and row.equivalence.pairs == 2
        assert row.equivalence.verdict == "too few seeds"
    assert jax.equivalence is not None and jax.equivalence.mean == pytest.approx(0.05)
    assert len(jax.accuracies) == 3


def test_one_framework_in_one_precision_has_nothing_to_compare() -> None:
    (row,) = convergence.rows(records("jax", (98.1, 98.5)))
    assert (row.against, row.equivalence) == (None, None)
    (row,) = convergence.rows(records("jax", (98.1, 98.5), "bf16_mixed"))
    assert row.equivalence is None and row.mean == pytest.approx(98.3)


def test_models_are_compared_separately() -> None:
    found = [*ALL, *records("pytorch", (10.0, 11.0, 12.0), model="kent_medium")]
    other = by_name(convergence.rows(ALL))
    for name, row in by_name(convergence.rows(found)).items():
        if "lenet" in name:
            assert row.against == other[name].against


def test_a_run_has_several_seeds_where_its_records_have() -> None:
    assert convergence.several_seeds(ALL)
    assert not convergence.several_seeds(ALL[:1] * 2)


def shown(found: Sequence[Record]) -> list[list[str]]:
    """The words of each line of the table, 120 columns wide."""
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(convergence_table.render(convergence.rows(found)))
    return [line.split() for line in captured.get().splitlines()]


def test_the_table_has_accuracy_difference_interval_and_verdict() -> None:
    lines = shown(ALL)
    assert ["lenet", "on", "mnist,", "1", "epoch,", "batch", "64,", "sgd", "0.01,", "cpu"] in lines
    rows = [line for line in lines if line and line[0] in ("jax:jit", "mxnet:hybrid")]
    assert rows[1] == [
        *("mxnet:hybrid", "float32", "3", "97.53", "%", "0.50", "others", "-0.983"),
        *("-1.112", "to", "-0.855", "no"),
    ]
    jax = ["jax:jit", "bf16_mixed", "3", "98.53", "%", "0.40", "float32", "+0.000"]
    assert rows[2][:8] == jax and rows[2][-1] == "yes"


def test_an_unsupported_row_is_shown_with_its_reason() -> None:
    lines = shown(ALL)
    assert ["mxnet:hybrid", "bf16_mixed", "0", "-", "-", "float32", "-", "-", "skipped"] in lines
    assert ["mxnet:hybrid", "lenet", "bf16_mixed:", "skipped:", "no", "bfloat16"] in lines


def test_a_row_that_is_not_proven_is_shown_with_its_seeds() -> None:
    found = records("pytorch", (98.0, 98.5, 99.0))
    bad = found[1].model_copy(update={"parity": Parity(proven=False, reason="loss is off")})
    line = "pytorch:eager lenet float32: not proven to be the same work (seed 2): loss is off"
    assert line.split() in shown([found[0], bad, found[2]])


def test_markdown_has_the_rows_of_all_models_and_the_reasons() -> None:
    text = convergence_table.markdown(convergence.rows(ALL))
    lines = text.splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    assert len(table) == 2 + 6 and {len(row) for row in table} == {10}
    assert table[1] == ["---"] * 10
    assert table[2][:4] == ["lenet", "jax:jit", "float32", "3"]
    assert lines[0] == "- lenet on mnist, 1 epoch, batch 64, sgd 0.01, cpu"
    assert lines[-1] == "- mxnet:hybrid lenet bf16_mixed: skipped: no bfloat16"


def test_device_sets_have_a_table_each() -> None:
    several = [
        each
        for device in ("cpu:1", "cpu:2")
        for framework in ("pytorch", "jax")
        for each in records(framework, (98.0, 98.1, 98.2), device=device)
    ]
    rows = convergence.rows(several)
    assert [row.record.device for row in rows] == ["cpu:1", "cpu:1", "cpu:2", "cpu:2"]


def test_json_has_the_accuracies_by_seed_and_the_interval() -> None:
    values = convergence_table.as_values(convergence.rows(ALL))
    (jax,) = [
        each
        for each in values
        if each["framework"] == "jax" and each["workload"]["precision"] == "bf16_mixed"
    ]
    assert jax["accuracies"] == pytest.approx({1: 98.1, 2: 98.6, 3: 98.9})
    assert (jax["pairs"], jax["margin"], jax["equivalent"]) == (3, 0.25, "yes")
    assert jax["ci_low"] < jax["difference"] < jax["ci_high"]


def test_nothing_is_compared_with_an_unproven_row() -> None:
    off = [
        each.model_copy(update={"parity": Parity(proven=False, reason="x")})
        for each in records("jax", (88.0, 88.1, 88.2))
    ]
    jax, pytorch = convergence.rows([*records("pytorch", (98.0, 98.1, 98.2)), *off])
    assert (pytorch.record.framework, pytorch.against) == ("pytorch", None)
    assert jax.against == pytorch.accuracies


def test_a_seed_of_two_runs_is_found() -> None:
    assert convergence.repeated(ALL) is None
    assert convergence.repeated([*ALL, ALL[3]]) == ALL[3]
