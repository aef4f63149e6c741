import pytest

from suite.errors import UsageError
from suite.runner.durations import parse, shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h", 3600), ("90m", 5400), ("1h30m", 5400), ("3600s", 3600), ("1h1m1s", 3661)],
)
def test_a_duration_has_hours_minutes_or_seconds(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "1x", "1.5h", "-1h", "30m1h", "0s", "h", " 1h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == f"--max-time {text!r} is not a duration"
    assert "1h30m" in caught.value.hint


def test_a_duration_is_shown_rounded_up() -> None:
    seconds = (40, 40.2, 59.7, 60, 61, 3599, 3600, 7500)
    expected = ["40 s", "41 s", "1 min", "1 min", "2 min", "1 h 0 min", "1 h 0 min", "2 h 5 min"]
    assert [shown(each) for each in seconds] == expected
