from collections.abc import Callable

from rich.console import Console

from suite.parity import Certificate
from suite.plan import Plan
from suite.report import parity_table


def test_it_shows_the_largest_errors_and_marks_what_is_proven(quick: Callable[..., Plan]) -> None:
    worst = {"logits": 1.23e-6, "loss": 2e-7, "gradients": 3e-6, "weights": 4e-6, "updates": 5e-6}
    certificate = Certificate(
        version=1,
        key="k",
        framework="pytorch",
        variant="eager",
        model="lenet",
        proven=True,
        reason=None,
        tolerance=1e-4,
        worst=worst,
        errors=[],
        reference_error=1e-15,
        of={},
    )
    proven, missing = quick("pytorch", "mxnet").trials
    console = Console(width=100)
    with console.capture() as captured:
        console.print(parity_table.render([(proven, certificate), (missing, None)]))
    rows = [line.split() for line in captured.get().splitlines() if "lenet" in line]
    assert rows[0] == [
        "pytorch",
        "eager",
        "lenet",
        "1.2e-06",
        "2.0e-07",
        "3.0e-06",
        "4.0e-06",
        "5.0e-06",
        "=",
    ]
    assert rows[1] == ["mxnet", "hybrid", "lenet", "-", "-", "-", "-", "-", "?"]
