"""The journal of a rented machine: how long it was there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from suite.cloud.journal import EVENTS, GONE, LAUNCH, Journal


@pytest.mark.parametrize(
    ("launched_ago_h", "gone_ago_h", "hours"),
    [
        (3.0, 1.0, 2.0),
        (1.0, 3.0, 0.0),  # the clock was set back between the two
        (-2.0, None, 0.0),  # the clock was ahead at the launch
    ],
)
def test_a_clock_that_was_set_back_gives_no_negative_hours(
    tmp_path: Path, launched_ago_h: float, gone_ago_h: float | None, hours: float
) -> None:
    now = datetime.now(UTC)
    events = {LAUNCH: launched_ago_h, **({} if gone_ago_h is None else {GONE: gone_ago_h})}
    lines = [
        json.dumps({"time": (now - timedelta(hours=ago)).isoformat(), "event": name})
        for name, ago in events.items()
    ]
    (tmp_path / EVENTS).write_text("\n".join(lines) + "\n")
    assert Journal(tmp_path).hours() == pytest.approx(hours)
