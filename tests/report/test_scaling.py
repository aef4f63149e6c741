"""Speed-up and efficiency of several devices."""

import pytest
from rich.console import Console

from suite.report import scaling, scaling_table
from suite.report.summary import TrialSummary, summarise
from suite.results.record import Parity, Record, Times
from tests.results.test_record import record

RATES = (0.98, 1.0, 1.01, 1.02)


def runs(device: str, batch_size: int, rate: float, **changes: object) -> list[Record]:
    return [
        record(
            trial_id=f"{device}-{batch_size}",
            device=device,
            batch_size=batch_size,
            cpu_parts=2,
            repeat=repeat,
            samples_per_s=rate * factor,
            **changes,
        )
        for repeat, factor in enumerate(RATES)
    ]


def summaries() -> list[TrialSummary]:
    """One rank at batch 64, two with half of it each, and two with 64 each."""
    times = Times(exchange_s=0.004)
    return summarise(
        [
            *runs("cpu:1", 64, 100.0, parameters=431_080),
            *runs("cpu:2", 64, 150.0, times=times, parameters=431_080),
            *runs("cpu:2", 128, 190.0, times=times),
        ]
    )


def test_strong_and_weak_scaling_are_compared_with_one_device() -> None:
    base, strong, weak = scaling.rows(summaries())
    assert (base.kind, base.speed_up, base.efficiency) == ("base", None, None)
    assert strong.speed_up and weak.speed_up
    assert (strong.kind, weak.kind) == ("strong", "weak")
    assert strong.speed_up.ratio == pytest.approx(1.5)
    assert strong.efficiency == pytest.approx(0.75)
    assert weak.efficiency == pytest.approx(0.95)
    assert strong.speed_up.ci_low and strong.speed_up.ci_low < 1.5


def test_other_work_on_one_device_is_no_base() -> None:
    others = [
        *runs("cpu:1", 32, 100.0),
        *runs("cpu:1", 64, 100.0, precision="bf16_mixed"),
        *runs("cpu:2", 256, 190.0),
    ]
    rows = scaling.rows(summarise(others))
    assert [row.kind for row in rows] == ["base", "base", "no base"]
    assert (rows[-1].speed_up, rows[-1].efficiency) == (None, None)


def test_a_run_without_a_trial_on_one_device_has_rates_only() -> None:
    text = scaling_table.markdown(scaling.rows(summarise(runs("cpu:2", 64, 150.0))))
    assert text.splitlines()[2].startswith("| lenet | pytorch:eager | no base | cpu:2 | 64 | 151 |")


def test_the_table_has_the_exchange_of_gradients_and_the_growth() -> None:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(scaling_table.render(scaling.rows(summaries())))
    text = captured.get()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any("strong cpu:2 64 151 1.50 (1.46 to 1.54) 0.75" in line for line in lines), text
    assert any("4.00 ms" in line for line in lines)
    assert "| 4.00 ms | 0.43 GB/s |" in scaling_table.markdown(scaling.rows(summaries()))
    assert any(line.startswith("pytorch:eager lenet 431,080 64") for line in lines)
    assert "J/sample" not in text and "…" not in text
    assert scaling_table.markdown(scaling.rows(summaries())).count("\n") == 4


def test_a_run_on_one_device_has_no_scaling() -> None:
    assert not scaling.has_several(summarise(runs("cpu:1", 64, 100.0)))
    assert scaling.has_several(summaries())


@pytest.mark.parametrize("unproven", ["cpu:1", "cpu:2"])
def test_an_unproven_trial_gives_no_speed_up(unproven: str) -> None:
    parity = {unproven: {"parity": Parity(proven=False, reason="x")}}
    records = [
        record
        for device, rate in (("cpu:1", 100.0), ("cpu:2", 150.0))
        for record in runs(device, 64, rate, **parity.get(device, {}))
    ]
    base, strong = scaling.rows(summarise(records))
    assert (base.kind, strong.kind, strong.speed_up) == ("base", "strong", None)


def test_rows_that_differ_in_precision_or_input_have_different_names() -> None:
    others = [
        *runs("cpu:1", 64, 100.0),
        *runs("cpu:1", 64, 50.0, precision="bf16_mixed"),
        *runs("cpu:1", 64, 90.0, input="loader"),
    ]
    for number, each in enumerate(others):
        others[number] = each.model_copy(update={"trial_id": f"{each.workload}"})
    names = {row.name for row in scaling.rows(summarise(others))}
    plain = others[0].configuration
    assert names == {plain, f"{plain}, bf16_mixed", f"{plain}, input loader"}
