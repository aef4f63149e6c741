import io
from collections.abc import Callable

import pytest
from rich.console import Console

from suite.protocol.plan import Plan
from suite.report import live
from tests.test_records import record


def told(plan: Plan, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    """What is shown of one run, from the installation to its record."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=120, no_color=True)
    monkeypatch.setattr(live, "console", lambda stderr: console)
    run = plan.runs[0]
    with live.Live() as display:
        display.notify("PyTorch: making its environment")
        display.notify("PyTorch: downloading torch.whl")
        display.planned(plan)
        block = {"event": "block", "samples_per_s": 640.0, "left_s": 7.0}
        display.event(run, {"event": "unheard of"})
        display.event(run, block)
        display._bars.refresh()
        display.done(run, record(samples_per_s=650.0))
    return shown.getvalue()


def test_a_terminal_sees_a_live_line_with_phase_rate_and_time_left(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told(quick("pytorch"), monkeypatch, terminal=True)
    assert "pytorch:eager lenet run 1/1 measuring 640 images/s 7 s left" in text


def test_a_pipe_gets_one_plain_line_for_each_thing_done(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told(quick("pytorch"), monkeypatch, terminal=False)
    assert text.splitlines() == [
        "PyTorch: making its environment",
        "pytorch:eager lenet run 1/1 ok 650 images/s",
    ]
