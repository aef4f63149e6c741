"""The table of parity errors, for the terminal and as Markdown."""

from collections.abc import Callable

from rich.console import Console

from suite.parity.certificates import Certificate
from suite.protocol.plan import Plan
from suite.report import parity_table


def certificate(reason: str | None) -> Certificate:
    """A certificate that is proven where there is no reason against it."""
    return Certificate(
        version=1,
        key="k",
        framework="pytorch",
        variant="eager",
        track="equal",
        model="lenet",
        proven=reason is None,
        reason=reason,
        tolerance=1e-4,
        worst={name: number * 1e-6 for number, name in enumerate(parity_table.QUANTITIES, start=1)},
        share=0.07,
        steps=10,
        errors=[{}] * 7,
        raised=[],
        zeros=[],
        reference_error=1e-15,
        of={},
    )


CELLS = ["7/10", "1e-06", "2e-06", "3e-06", "4e-06", "5e-06", "6e-06", "7e-06", "0.07"]


def test_a_row_has_the_largest_errors_and_whether_the_work_is_the_same(
    quick: Callable[..., Plan],
) -> None:
    proven, missing = quick("pytorch", "mxnet").trials
    console = Console(width=120)
    with console.capture() as captured:
        rows = [(proven, certificate(None), None), (missing, None, "no lock")]
        console.print(parity_table.render(rows))
    shown = [line.split() for line in captured.get().splitlines() if "lenet" in line]
    assert shown[0] == ["lenet", "sgd", "pytorch:eager", *CELLS, "yes"]
    assert shown[1] == ["lenet", "sgd", "mxnet:hybrid", *["-"] * 9, "no"]


def test_a_narrow_table_has_whole_columns_and_the_share(quick: Callable[..., Plan]) -> None:
    (trial,) = quick("pytorch:max_autotune").trials
    console = Console(width=60)
    with console.capture() as captured:
        rows = [(trial, certificate(None), None)]
        console.print(parity_table.render(rows, console.width))
    (row,) = (line.split() for line in captured.get().splitlines() if "lenet" in line)
    assert row[:2] == ["lenet", trial.configuration]
    assert row[-2:] == ["0.07", "yes"]
    assert "…" not in captured.get()


def test_quantities_without_a_value_have_no_column(quick: Callable[..., Plan]) -> None:
    (trial,) = quick("pytorch").trials
    (names, *_) = parity_table.markdown([(trial, None, "no lock")]).splitlines()[2:]
    assert "share" in names
    assert "infer." not in names


def test_markdown_lists_the_reason_of_each_row_that_is_not_proven(
    quick: Callable[..., Plan],
) -> None:
    proven, missing = quick("pytorch", "mxnet").trials
    rows = [(proven, certificate("step 3: loss is off"), None), (missing, None, "no lock")]
    lines = parity_table.markdown(rows).splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    assert table[1] == ["---"] * 13
    assert table[2] == ["lenet", "sgd", "pytorch:eager", *CELLS, "no"]
    assert table[3][-1] == "no"
    assert lines[-2:] == [
        "- pytorch:eager on lenet: step 3: loss is off",
        "- mxnet:hybrid on lenet: no lock",
    ]
