from collections.abc import Callable

from rich.console import Console

from suite.parity.certificates import Certificate
from suite.protocol.plan import Plan
from suite.report import parity_table


def certificate(reason: str | None) -> Certificate:
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
        reference_error=1e-15,
        of={},
    )


CELLS = ["7/10", "1e-06", "2e-06", "3e-06", "4e-06", "5e-06", "6e-06", "7e-06", "0.07"]


def test_it_shows_the_largest_errors_and_marks_what_is_proven(quick: Callable[..., Plan]) -> None:
    proven, missing = quick("pytorch", "mxnet").trials
    console = Console(width=120)
    with console.capture() as captured:
        rows = [(proven, certificate(None), None), (missing, None, "no lock")]
        console.print(parity_table.render(rows))
    shown = [line.split() for line in captured.get().splitlines() if "lenet" in line]
    assert shown[0] == ["lenet", "sgd", "pytorch:eager", *CELLS, "="]
    assert shown[1] == ["lenet", "sgd", "mxnet:hybrid", *["-"] * 9, "?"]


def test_as_markdown_it_gives_each_reason(quick: Callable[..., Plan]) -> None:
    proven, missing = quick("pytorch", "mxnet").trials
    rows = [(proven, certificate("step 3: loss is off"), None), (missing, None, "no lock")]
    lines = parity_table.markdown(rows).splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    assert table[1] == ["---"] * 13
    assert table[2] == ["lenet", "sgd", "pytorch:eager", *CELLS, "?"]
    assert table[3][-1] == "?"
    assert lines[-2:] == [
        "- pytorch:eager on lenet: step 3: loss is off",
        "- mxnet:hybrid on lenet: no lock",
    ]
